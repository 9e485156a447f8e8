// The table: sorted by a click on a column's name, drawn a few hundred rows at a time.

import { element, percent, sorted, thousands, view } from "./data.js";

const STEP = 200;

const COLUMNS = [
  ["model", "model"], ["language", "language"], ["task", "task"], ["length", "length"],
  ["n", "n"], ["measure", "measure"], ["mean", "mean, %"], ["low", "95 % interval"],
];
const PAIRED = [
  ["model", "model"], ["language", "language"], ["task", "task"], ["length", "length"], ["n", "n"],
  ["first", "first, %"], ["second", "second, %"], ["difference", "difference"],
  ["low", "95 % interval"], ["p_holm", "p (Holm)"],
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
  if (name === "low") return `${percent(value)} to ${percent(row.high)}`;
  if (name === "difference") return `${value > 0 ? "+" : ""}${percent(value)}`;
  if (["mean", "first", "second"].includes(name)) return percent(value);
  if (name === "p_holm") return value < 0.001 ? "< 0.001" : value.toFixed(3);
  return String(value);
}

function head(columns, by) {
  return element("tr", {}, ...columns.map(([name, title]) => {
    const falling = by === `-${name}`;
    const state = by === name ? "ascending" : falling ? "descending" : null;
    const button = element("button", { type: "button", "data-column": name }, title,
      element("span", { "aria-hidden": "true" }, state ? (falling ? " ▾" : " ▴") : ""));
    button.addEventListener("click", () => view.go({ sort: by === name ? `-${name}` : falling ? "" : name }));
    return element("th", { scope: "col", "aria-sort": state, class: NUMBERS.has(name) && "number" }, button);
  }));
}

function line(row, columns) {
  return element("tr", {}, ...columns.map(([name]) => {
    const cell = element("td", { class: NUMBERS.has(name) && "number" });
    // The one link of a row, which opens what stands behind its number.
    if (name === "mean") {
      const said = `${text(row, name)} %, ${row.n} samples of ${row.model}, ${row.language}, ${row.task}, ${row.length}`;
      cell.append(element("a", { href: view.address(cellOf(row)), "aria-label": said }, text(row, name)));
    } else cell.append(text(row, name));
    return cell;
  }));
}

/** Return what the address says of a cell that is open. */
export function cellOf(row) {
  return { cell: [row.model, row.language, row.length, row.task].join("|"), sample: "" };
}

/** Show rows in the table, sorted as the view says. */
export function show(rows, values, pair) {
  const by = values.get("sort") ?? "";
  const columns = columnsOf(rows, pair);
  const ordered = sorted(rows, by);
  const table = document.getElementById("table");
  const focused = document.activeElement?.dataset?.column;
  table.tHead.replaceChildren(head(columns, by));
  if (focused) table.tHead.querySelector(`[data-column="${focused}"]`)?.focus();
  const body = table.tBodies[0];
  const more = document.getElementById("more");
  let drawn = 0;
  const draw = () => {
    body.append(...ordered.slice(drawn, drawn + STEP).map((row) => line(row, columns)));
    drawn = Math.min(drawn + STEP, ordered.length);
    more.hidden = drawn === ordered.length;
    more.textContent = `Show more: ${ordered.length - drawn} rows`;
  };
  body.replaceChildren();
  draw();
  more.onclick = draw;
  return ordered;
}
