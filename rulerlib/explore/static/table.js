// The table of cells, and that of a comparison.

import { element, percent, thousands, view, worded } from "./data.js";
import { grid } from "./grid.js";

// What a phone shows of a row comes first: of what, and how much.
const COLUMNS = [
  ["task", "task"], ["length", "length"], ["mean", "mean, %"], ["low", "95 % interval"],
  ["n", "n"], ["model", "model"], ["language", "language"], ["measure", "measure"],
];
const PAIRED = [
  ["task", "task"], ["length", "length"], ["difference", "difference"], ["low", "95 % interval"],
  ["first", "first, %"], ["second", "second, %"], ["n", "n"], ["p_holm", "p (Holm)"],
  ["model", "model"], ["language", "language"],
];
const NUMBERS = new Set(["length", "n", "mean", "low", "first", "second", "difference", "p_holm"]);

/** Return the columns of rows: those of cells, or of a comparison as far as it has them. */
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

/** Return what stands in a cell: the mean is a link, the one of its row, to what stands behind it. */
function shown(row, name) {
  if (name !== "mean") return text(row, name);
  const said = `${text(row, name)} %, ${row.n} samples of ${row.model}, ${row.language}, ${row.task}, ${row.length}`;
  return element("a", { href: view.address(cellOf(row)), "aria-label": said }, text(row, name));
}

/** Return what the address says of a cell that is open. */
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
