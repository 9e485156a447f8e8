// A table of many rows: sorted by a click on a column's name, drawn a few hundred rows at a time.

import { element, sorted, view } from "./data.js";

const STEP = 200;

function head(columns, by) {
  return element("tr", {}, ...columns.map(({ name, title, number }) => {
    const falling = by === `-${name}`;
    const state = by === name ? "ascending" : falling ? "descending" : null;
    const button = element("button", { type: "button", "data-column": name }, title,
      element("span", { "aria-hidden": "true" }, state ? (falling ? " ▾" : " ▴") : ""));
    // The best, which is the largest number, is on top at the first click.
    const [first, second] = number ? [`-${name}`, name] : [name, `-${name}`];
    button.addEventListener("click", () => view.go({ sort: by === first ? second : by === second ? "" : first }));
    return element("th", { scope: "col", "aria-sort": state, class: number && "number" }, button);
  }));
}

/**
 * Show rows in the table of the page, sorted by a column, "-" before its name for falling.
 *
 * A column has a `name`, a `title`, whether it is a `number`, and `shown`, the content of the cell
 * of a row: a text or an element. Returns the rows in the order in which they stand.
 */
export function grid(rows, columns, by) {
  const ordered = sorted(rows, by);
  const table = document.getElementById("table");
  const focused = document.activeElement?.dataset?.column;
  table.tHead.replaceChildren(head(columns, by));
  if (focused) table.tHead.querySelector(`[data-column="${focused}"]`)?.focus();
  const body = table.tBodies[0];
  const more = document.getElementById("more");
  let drawn = 0;
  const draw = () => {
    body.append(...ordered.slice(drawn, drawn + STEP).map((row) => element("tr", {},
      ...columns.map(({ number, shown }) => element("td", { class: number && "number" }, shown(row))))));
    drawn = Math.min(drawn + STEP, ordered.length);
    more.hidden = drawn === ordered.length;
    more.textContent = `Show more: ${ordered.length - drawn} rows`;
  };
  body.replaceChildren();
  draw();
  more.onclick = draw;
  return ordered;
}
