// Claimed against effective length: one line for each model between the two, whose ends differ in
// shape as well as in colour.

import { svg } from "./charts.js";
import { thousands } from "./data.js";

const MOST = 100;
const TOP = 64;

/** Return the left end of the lines, the largest width and the height of a row. */
function layout(room) {
  // On a phone the name is above its line, otherwise before it.
  return room < 640 ? { left: 26, wide: room - 60, high: 40, narrow: true }
    : { left: 300, wide: Math.min(room - 350, 620), high: 22, narrow: false };
}

const both = (row) => row.claimed && row.effective;

/** Return the picture in a sentence, about the published rows if there are any. */
function inWords(rows) {
  const published = rows.filter((row) => row.kind === "published");
  const claiming = (published.length ? published : rows).filter(both);
  const whole = claiming.filter((row) => row.reach >= row.claimed);
  const open = claiming.filter((row) => row.reach < row.claimed && row.effective.startsWith("≥"));
  const rest = claiming.filter((row) => !whole.includes(row) && !open.includes(row));
  const quarter = rest.filter((row) => 4 * row.reach <= row.claimed);
  return `Of ${claiming.length} ${published.length ? "published rows" : "rows"} with a claimed length, ${whole.length} can use all of it, ${open.length} all that was measured,`
    + ` which is less than they claim, and ${rest.length} less: ${quarter.length} of these a quarter or less.`;
}

/** Draw the claimed and the effective length, a row for each model. */
export function claims(rows) {
  const known = rows.filter(both);
  const drawn = known.slice(0, MOST);
  const place = document.getElementById("claims");
  const said = document.getElementById("claims-said");
  said.textContent = !known.length ? "None of these rows has a claimed length." : `Claimed against effective length, in tokens. ${inWords(rows)}`
    + (known.length > MOST ? ` Only the first ${MOST} are drawn.` : "");
  if (!drawn.length) { place.replaceChildren(); return; }
  // All effective lengths below the shortest measured one share one place.
  const measured = drawn.flatMap((row) => Object.keys(row.averages).map(Number));
  const first = Math.log2(Math.min(...measured)) - 1;
  const last = Math.log2(Math.max(...measured, ...drawn.map((row) => row.claimed)));
  const { left, wide, high, narrow } = layout(place.clientWidth);
  const x = (length) => left + wide * (length ? (Math.log2(length) - first) / (last - first) : 0);
  const size = [left + wide + (narrow ? 26 : 40), TOP + high * drawn.length + 6];
  const drawing = svg("svg", { width: size[0], height: size[1], viewBox: `0 0 ${size.join(" ")}`, role: "img" });
  drawing.setAttribute("aria-label", `${inWords(rows)} ${drawn.map(worded).join("; ")}.`);
  const ticks = [[first, `<${thousands(2 ** (first + 1))}`]];
  for (let power = Math.ceil(first + 1); power <= last + 0.01; power += 1) ticks.push([power, thousands(2 ** power)]);
  for (const [number, [power, text]] of ticks.entries()) {
    const at = x(2 ** power);
    drawing.append(svg("line", { x1: at, x2: at, y1: TOP - 8, y2: size[1] - 6, class: "grid" }),
      // Only every second name fits on a phone.
      svg("text", { x: at, y: TOP - 14, "text-anchor": "middle" }, narrow && number % 2 ? "" : text));
  }
  drawing.append(...legend(narrow ? 10 : left));
  drawn.forEach((row, line) => {
    const y = TOP + high * (line + (narrow ? 0.75 : 0.5));
    const [own, claimed] = [x(row.reach), x(row.claimed)];
    drawing.append(svg("g", {}, svg("title", {}, worded(row)),
      narrow ? svg("text", { x: 8, y: y - 13 }, short(row))
        : svg("text", { x: left - 14, y: y + 5, "text-anchor": "end" }, short(row)),
      svg("line", { x1: own, x2: claimed, y1: y, y2: y, class: "gap-line" }),
      ...(row.effective.startsWith("≥") ? [arrow(own, y)] : []),
      square(claimed, y), svg("circle", { cx: own, cy: y, r: 5, class: "effective" })));
  });
  place.replaceChildren(drawing);
}

const worded = (row) => `${row.model}, ${row.language}: claims ${thousands(row.claimed)}, effective ${row.effective}`;

function short({ model }) {
  return model.length > 40 ? `${model.slice(0, 39)}…` : model;
}

const square = (x, y) => svg("rect", { x: x - 6, y: y - 6, width: 12, height: 12, class: "claimed" });

/** Return an arrow to the right, which means that no longer length was measured. */
const arrow = (x, y) => svg("path", { d: `M${x} ${y}h22m-6 -5l6 5l-6 5`, class: "open" });

function legend(from) {
  const y = 16;
  const x = from;
  return [
    svg("circle", { cx: x, cy: y - 5, r: 5, class: "effective" }), svg("text", { x: x + 10, y }, "effective"),
    square(x + 88, y - 5), svg("text", { x: x + 100, y }, "claimed"),
    arrow(x + 160, y - 5), svg("text", { x: x + 188, y }, "at least"),
  ];
}
