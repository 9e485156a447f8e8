// A heatmap by length, and accuracy as curves with intervals: SVG, in colours that colour-blind readers can tell apart.

import { percent, thousands, view, worded } from "./data.js";
import { cellOf } from "./table.js";

// The colours of `rulerlib.plots.RED_GREEN`, at even distances from 0 to 1.
const SHADES = ["8c0d25", "c0302c", "e0702b", "e6b62e", "c0da4d", "a6f28b"];
// Okabe and Ito's colours.
// As many lines as there are colours can be told apart.
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777"];
const MOST = 28;

/** Return a new element of a drawing. */
export function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const channels = (shade) => [0, 2, 4].map((at) => parseInt(shade.slice(at, at + 2), 16));

/** Return the colour of a share from 0 to 1, and black or white, whichever has more contrast with it. */
export function shade(share) {
  const steps = SHADES.length - 1;
  const at = Math.min(steps - 0.001, Math.max(0, share * steps));
  const below = channels(SHADES[Math.floor(at)]);
  const above = channels(SHADES[Math.floor(at) + 1]);
  const rgb = below.map((part, i) => Math.round(part + (above[i] - part) * (at % 1)));
  const [r, g, b] = rgb.map((part) => (part / 255 <= 0.04045 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return [`rgb(${rgb})`, 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff"];
}

/** Return the rows by a name and a length, in the order in which names come and lengths rise. */
function grouped(rows, by) {
  const groups = new Map();
  for (const row of rows) {
    if (!groups.has(row[by])) groups.set(row[by], new Map());
    const own = groups.get(row[by]);
    own.set(row.length, [...(own.get(row.length) ?? []), row]);
  }
  return groups;
}

const meanOf = (cells) => cells.reduce((sum, row) => sum + row.mean, 0) / cells.length;

function said(name, length, cells) {
  const of = cells.length === 1
    ? `${percent(cells[0].low)} to ${percent(cells[0].high)}%, n = ${cells[0].n}` : `mean of ${cells.length} cells`;
  return `${worded(name)}, ${thousands(length)}: ${percent(meanOf(cells))}% (${of})`;
}

function short(label, most) {
  const name = worded(label);
  return name.length > most ? `${name.slice(0, most - 9)}…${name.slice(-8)}` : name;
}

/** Draw the heatmap; each cell is a link to its samples, or to the cells that it is the mean of. */
export function heatmap(rows, by) {
  const groups = [...grouped(rows, by)].slice(0, MOST);
  const lengths = [...new Set(rows.map((row) => row.length))].sort((a, b) => a - b);
  const [left, wide, high] = [190, 62, 30];
  const drawing = svg("svg", { width: left + wide * lengths.length, height: high * (groups.length + 1) });
  lengths.forEach((length, column) => drawing.append(
    svg("text", { x: left + wide * (column + 0.5), y: 20, "text-anchor": "middle" }, thousands(length)),
  ));
  groups.forEach(([name, own], line) => {
    const y = high * (line + 1);
    const title = svg("text", { x: left - 8, y: y + 20, "text-anchor": "end" }, short(name, 24));
    title.append(svg("title", {}, worded(name)));
    drawing.append(title);
    lengths.forEach((length, column) => {
      const x = left + wide * column;
      const cells = own.get(length);
      if (!cells) {
        drawing.append(svg("rect", { x, y, width: wide - 2, height: high - 2, class: "unmeasured" }));
        return;
      }
      const [colour, ink] = shade(meanOf(cells));
      const target = cells.length === 1 ? cellOf(cells[0]) : { [by]: name, length };
      drawing.append(svg("a", { href: view.address(target), "data-at": `${line} ${column}` },
        svg("title", {}, said(name, length, cells)),
        svg("rect", { x, y, width: wide - 2, height: high - 2, fill: colour }),
        svg("text", { x: x + wide / 2, y: y + 20, "text-anchor": "middle", style: `fill: ${ink}` }, percent(meanOf(cells)))));
    });
  });
  document.getElementById("heatmap").replaceChildren(drawing);
  const rest = new Set(rows.map((row) => row[by])).size - groups.length;
  document.getElementById("heatmap-said").textContent = `Mean, in %, by ${by} and length in tokens`
    + (rest > 0 ? `; ${rest} more are in the table` : "");
}

/** Draw accuracy by length; a point that is one cell has its interval, a mean of several has none. */
export function curve(rows, by) {
  const all = [...grouped(rows, by)];
  const change = ([, own]) => { const means = [...own.values()].map(meanOf); return Math.max(...means) - Math.min(...means); };
  const most = [...all].sort((a, b) => change(b) - change(a)).slice(0, COLOURS.length);
  const groups = all.filter((group) => most.includes(group));
  const lengths = [...new Set(rows.map((row) => row.length))].sort((a, b) => a - b);
  const [left, width, height] = [46, 470, 230];
  const [first, last] = [Math.log2(lengths[0]), Math.log2(lengths.at(-1))];
  const x = (length) => left + 12 + (width - 24) * (last > first ? (Math.log2(length) - first) / (last - first) : 0.5);
  const y = (share) => 10 + height * (1 - share);
  const below = height + 54;
  const size = [left + width + 10, below + 20 * Math.ceil(groups.length / 2)];
  const drawing = svg("svg", { width: size[0], height: size[1], viewBox: `0 0 ${size.join(" ")}`, role: "img" });
  const spoken = groups.map(([name, own]) => {
    const ends = [...own].sort((a, b) => a[0] - b[0]).map(([length, cells]) => `${percent(meanOf(cells))}% at ${thousands(length)}`);
    return `${name}: ${[...new Set([ends[0], ends.at(-1)])].join(", ")}`;
  });
  drawing.setAttribute("aria-label", `Mean by length. ${spoken.join("; ")}.`);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    drawing.append(svg("line", { x1: left, x2: left + width, y1: y(share), y2: y(share), class: "grid" }),
      svg("text", { x: left - 6, y: y(share) + 5, "text-anchor": "end" }, `${100 * share}`));
  }
  for (const length of lengths) {
    drawing.append(svg("text", { x: x(length), y: height + 30, "text-anchor": "middle" }, thousands(length)));
  }
  groups.forEach(([name, own], number) => {
    const colour = COLOURS[number];
    const points = [...own].sort((a, b) => a[0] - b[0]);
    // Side by side, so that no line and no interval hides another one.
    const at = (length) => x(length) + 4 * (number - (groups.length - 1) / 2);
    const line = points.map(([length, cells]) => `${at(length)},${y(meanOf(cells))}`);
    drawing.append(svg("polyline", { points: line.join(" "), fill: "none", stroke: colour, "stroke-width": 2 }));
    for (const [length, cells] of points) {
      const [row] = cells;
      const ends = cells.length > 1 ? [] : [svg("line", { x1: at(length), x2: at(length), y1: y(row.low), y2: y(row.high), stroke: colour, "stroke-width": 2, opacity: 0.5 })];
      drawing.append(...ends, svg("circle", { cx: at(length), cy: y(meanOf(cells)), r: 4, fill: colour }, svg("title", {}, said(name, length, cells))));
    }
    const [begin, under] = [left + (number % 2) * (width / 2), below + 20 * Math.floor(number / 2)];
    drawing.append(svg("line", { x1: begin, x2: begin + 24, y1: under - 5, y2: under - 5, stroke: colour, "stroke-width": 3 }),
      svg("text", { x: begin + 30, y: under }, short(name, 26)));
  });
  document.getElementById("curve").replaceChildren(drawing);
  const several = rows.length > new Set(rows.map((row) => `${row[by]}\n${row.length}`)).size;
  const rest = all.length - groups.length;
  document.getElementById("curve-said").textContent = "Mean, in %, by length in tokens"
    + (several ? "; means over several cells have no interval: choose one model, language or task" : ", with 95% intervals")
    + (rest > 0 ? `; only the ${groups.length} that change most are drawn, and the other ${rest} are in the table` : "");
}

/** Let the arrow keys lead from cell to cell of the heatmap, past those that were not measured. */
document.getElementById("heatmap")?.addEventListener("keydown", (event) => {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const here = event.target.closest("a")?.dataset.at.split(" ").map(Number);
  if (!step || !here) return;
  event.preventDefault();
  for (let [line, column] = here, left = 2 * MOST; left > 0; left -= 1) {
    [line, column] = [line + step[0], column + step[1]];
    const cell = event.currentTarget.querySelector(`[data-at="${line} ${column}"]`);
    if (cell) { cell.focus(); return; }
  }
});
