// A heatmap by length, and accuracy as curves with bands: SVG, in colours that all readers tell apart.

import { percent, thousands, view } from "./data.js";
import { cellOf } from "./table.js";

// Matplotlib's cividis at eleven places, as the figures of rulerlib.plots; Okabe and Ito's colours.
const SHADES = ["00224e", "083370", "35456c", "4f576c", "666970", "7d7c78", "948e77", "aea371", "c8b866", "e5cf52", "fee838"];
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777"];
// More bands than these hide each other.
const BANDED = 6;
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const MOST = 28;

/** Return a new element of a drawing. */
export function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const channels = (shade) => [0, 2, 4].map((at) => parseInt(shade.slice(at, at + 2), 16));

/** Return the colour of a share from 0 to 1, and black or white, whatever stands out more on it. */
export function shade(share) {
  const at = Math.min(9.999, Math.max(0, share * 10));
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
    ? `${percent(cells[0].low)} to ${percent(cells[0].high)} %, n = ${cells[0].n}` : `mean of ${cells.length} cells`;
  return `${name}, ${thousands(length)}: ${percent(meanOf(cells))} % (${of})`;
}

function short(name, most) {
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
    title.append(svg("title", {}, name));
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
      drawing.append(svg("a", { href: view.address(target), "aria-label": said(name, length, cells) },
        svg("title", {}, said(name, length, cells)),
        svg("rect", { x, y, width: wide - 2, height: high - 2, fill: colour }),
        svg("text", { x: x + wide / 2, y: y + 20, "text-anchor": "middle", style: `fill: ${ink}` }, percent(meanOf(cells)))));
    });
  });
  document.getElementById("heatmap").replaceChildren(drawing);
  const rest = new Set(rows.map((row) => row[by])).size - groups.length;
  document.getElementById("heatmap-said").textContent = `Mean, in %, by ${by} and length in tokens`
    + (rest > 0 ? `; and ${rest} more in the table` : "");
}

/** Draw accuracy by length; a point that is one cell has its interval, a mean of several has none. */
export function curve(rows, by) {
  const groups = [...grouped(rows, by)].slice(0, COLOURS.length * DASHES.length);
  const lengths = [...new Set(rows.map((row) => row.length))].sort((a, b) => a - b);
  const [left, width, height] = [46, 470, 230];
  const [first, last] = [Math.log2(lengths[0]), Math.log2(lengths.at(-1))];
  const x = (length) => left + 12 + (width - 24) * (last > first ? (Math.log2(length) - first) / (last - first) : 0.5);
  const y = (share) => 10 + height * (1 - share);
  const below = height + 54;
  const size = [left + width + 10, below + 20 * Math.ceil(groups.length / 2)];
  const drawing = svg("svg", { width: size[0], height: size[1], viewBox: `0 0 ${size.join(" ")}`, role: "img" });
  const spoken = groups.map(([name, own]) => {
    const ends = [...own].sort((a, b) => a[0] - b[0]).map(([length, cells]) => `${percent(meanOf(cells))} % at ${thousands(length)}`);
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
    const colour = COLOURS[number % COLOURS.length];
    const dashes = DASHES[Math.floor(number / COLOURS.length)];
    const points = [...own].sort((a, b) => a[0] - b[0]);
    const single = points.filter(([, cells]) => cells.length === 1).map(([length, [row]]) => [length, row]);
    const banded = groups.length <= BANDED;
    const edge = (list, end) => list.map(([length, row]) => `${x(length)},${y(row[end])}`);
    if (banded && single.length > 1 && single.length === points.length) {
      drawing.append(svg("polygon", { points: [...edge(single, "low"), ...edge([...single].reverse(), "high")].join(" "), fill: colour, opacity: 0.15 }));
    } else if (banded) {
      for (const [length, row] of single) {
        drawing.append(svg("line", { x1: x(length), x2: x(length), y1: y(row.low), y2: y(row.high), stroke: colour, "stroke-width": 5, opacity: 0.3 }));
      }
    }
    const line = points.map(([length, cells]) => `${x(length)},${y(meanOf(cells))}`);
    drawing.append(svg("polyline", { points: line.join(" "), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": dashes }));
    for (const [length, cells] of points) {
      drawing.append(svg("circle", { cx: x(length), cy: y(meanOf(cells)), r: 4, fill: colour }, svg("title", {}, said(name, length, cells))));
    }
    const [at, under] = [left + (number % 2) * (width / 2), below + 20 * Math.floor(number / 2)];
    drawing.append(svg("line", { x1: at, x2: at + 24, y1: under - 5, y2: under - 5, stroke: colour, "stroke-width": 3, "stroke-dasharray": dashes }),
      svg("text", { x: at + 30, y: under }, short(name, 26)));
  });
  document.getElementById("curve").replaceChildren(drawing);
  const several = rows.length > new Set(rows.map((row) => `${row[by]}\n${row.length}`)).size;
  const bands = groups.length > BANDED ? `; intervals are drawn for ${BANDED} lines or fewer`
    : several ? "; means over several cells have no band: choose one model, language or task" : ", with 95 % intervals";
  document.getElementById("curve-said").textContent = `Mean, in %, by length in tokens${bands}`;
}
