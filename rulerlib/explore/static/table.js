// The table of cells, and that of a comparison.

import { element, percent, thousands, view, worded } from "./data.js";
import { grid } from "./grid.js";

// A phone shows the first columns: the task, the length and the mean.
const COLUMNS = [
  ["task", "task"], ["length", "length"], ["mean", "mean, %"], ["low", "95% interval"],
  ["n", "n"], ["model", "model"], ["language", "language"], ["measure", "measure"],
];
const PAIRED = [
  ["task", "task"], ["length", "length"], ["difference", "difference"], ["low", "95% interval"],
  ["first", "first, %"], ["second", "second, %"], ["n", "n"], ["p_holm", "p (Holm)"],
  ["model", "model"], ["language", "language"],
];
const NUMBERS = new Set(["length", "n", "mean", "low", "first", "second", "difference", "p_holm"]);

/** Return the columns of cells, or those of a comparison that are not empty. */
export function columnsOf(rows, pair) {
  return pair ? PAIRED.filter(([name]) => rows.some((row) => row[name] !== undefined)) : COLUMNS;
}

function text(row, name) {
  const value = row[name];
  if (value === null || value === undefined) return "–";
  if (name === "length") return thousands(value);
  if (name === "task" || name === "model") return worded(value);
  if (name === "low") return `${percent(value)} to ${percent(row.high)}`;
  if (name === "difference") return `${value > 0 ? "+" : ""}${percent(value)}`;
  if (["mean", "first", "second"].includes(name)) return percent(value);
  if (name === "p_holm") return value < 0.001 ? "< 0.001" : value.toFixed(3);
  return String(value);
}

/** Return the content of a cell; the mean links to the answers behind it. */
function shown(row, name) {
  if (name !== "mean") return text(row, name);
  const said = `${text(row, name)}%, ${row.n} samples of ${row.model}, ${row.language}, ${row.task}, ${row.length}`;
  return element("a", { href: view.address(cellOf(row)), "aria-label": said }, text(row, name));
}

/** Return what an address says of an open cell. */
export function cellOf(row) {
  return { cell: [row.model, row.language, row.length, row.task].join("|"), sample: "" };
}

/** Show rows in the table, sorted as the view says. */
export function show(rows, values, pair) {
  const columns = columnsOf(rows, pair).map(([name, title]) => (
    { name, title, number: NUMBERS.has(name), shown: (row) => shown(row, name) }
  ));
  return grid(rows, columns, values.get("sort") ?? "");
}
