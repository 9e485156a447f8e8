// A picture of what the page "Move the needle" shows: the setting, the answer and the heatmap.

import { bars } from "./looked.js";

const WIDTH = 1200;
const MARGIN = 48;
const INNER = WIDTH - 2 * MARGIN;
const INK = "#1c1917";
const GREY = "#57534e";
const FAMILY = "system-ui, -apple-system, 'Segoe UI', sans-serif";
const MARKS = { good: "#16a34a", fair: "#d97706", bad: "#dc2626" };

// A text in lines that are no wider than a width; what does not fit ends in an ellipsis.
function lines(canvas, text, width, most) {
  const made = [""];
  for (const word of text.split(/\s+/)) {
    const longer = made.at(-1) ? `${made.at(-1)} ${word}` : word;
    if (canvas.measureText(longer).width <= width || !made.at(-1)) made[made.length - 1] = longer;
    else made.push(word);
  }
  const kept = made.slice(0, most);
  if (made.length > most) kept[most - 1] += " …";
  return kept;
}

// Draw, from the top on, with a canvas or only to find out how high it is; return that height.
function draw(canvas, { title, about, runs, colours, weights, answer, table, address }) {
  let y = MARGIN;
  const text = (said, size, { colour = INK, weight = 400, most = 2, left = MARGIN } = {}) => {
    canvas.font = `${weight} ${size}px ${FAMILY}`;
    canvas.fillStyle = colour;
    for (const line of lines(canvas, said, INNER + MARGIN - left, most)) {
      y += 1.3 * size;
      canvas.fillText(line, left, y - 0.3 * size);
    }
  };
  const box = (colour, left, top, width, height) => {
    canvas.fillStyle = colour;
    canvas.fillRect(left, top, width, height);
  };
  text(title, 40, { weight: 700 });
  text(about, 24, { colour: GREY });
  y += 20;
  const all = runs.reduce((sum, [, tokens]) => sum + tokens, 0);
  if (weights) {
    // Over the prompt alone, which the room for the answer follows.
    const heights = bars(weights);
    const width = (INNER * weights.length) / all / heights.length;
    heights.forEach((height, at) => {
      box("#7c3aed", MARGIN + at * width, y + 60 * (1 - height), width, 60 * height);
    });
    y += 60;
  }
  let left = MARGIN;
  for (const [part, tokens] of runs) {
    const width = (INNER * tokens) / all;
    // A needle is a hair's breadth of a long context, and still has to be seen.
    const shown = ["needle", "distractor"].includes(part) ? Math.max(6, width) : width;
    box(colours[part], left, y, shown, 34);
    left += width;
  }
  y += 34;
  if (answer) {
    const top = y + 24;
    y = top;
    text(answer.verdict, 28, { weight: 700, left: MARGIN + 24 });
    text(answer.said, 28, { most: 3, left: MARGIN + 24 });
    text(answer.wanted, 22, { colour: GREY, left: MARGIN + 24 });
    box(MARKS[answer.grade], MARGIN, top, 8, y - top);
  }
  if (table.length) {
    y += 30;
    const first = 110;
    const width = (INNER - first) / (table[0].length - 1);
    for (const row of table) {
      row.forEach(({ said, fill, ink }, at) => {
        const start = at ? MARGIN + first + (at - 1) * width : MARGIN;
        if (fill) box(fill, start + 2, y, width - 4, 40);
        canvas.font = `${fill ? 600 : 400} 22px ${FAMILY}`;
        canvas.fillStyle = ink ?? GREY;
        const room = canvas.measureText(said).width;
        canvas.fillText(said, at ? start + (width - room) / 2 : start, y + 28);
      });
      y += 44;
    }
  }
  y += 16;
  text(address, 20, { colour: GREY });
  return y + MARGIN / 2;
}

// The same as a file (PNG), as a promise.
export function picture(content) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [WIDTH, 1];
  const height = Math.ceil(draw(canvas.getContext("2d"), content));
  canvas.height = height;
  const drawn = canvas.getContext("2d");
  drawn.fillStyle = "#fff";
  drawn.fillRect(0, 0, WIDTH, height);
  draw(drawn, content);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
