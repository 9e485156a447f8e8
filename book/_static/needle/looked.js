// Where the model looked: the attention of an answer's tokens over the prompt, the mean of all
// heads of all layers, as a strip above the text and as marks in it.

const BINS = 120;

// Tokens that are marked in the text, and the least share of the strongest that one has.
const MARKED = 60;
const LEAST = 0.08;

// The attention over the prompt of one token of the answer, or the mean of all (null).
export function shares({ took }, chosen) {
  if (chosen !== null) return took[chosen];
  return took[0].map((_, at) => took.reduce((sum, one) => sum + one[at], 0) / took.length);
}

// The part of the prompt that each token stands in.
function partOf({ prompt, starts }) {
  let row = 0;
  let end = prompt.rows[0].text.length;
  return starts.slice(0, -1).map((start, token) => {
    while (start >= end && row < prompt.rows.length - 1) end += prompt.rows[++row].text.length;
    // The beginning of the text is where a head rests that finds nothing.
    return token === 0 ? "beginning" : prompt.rows[row].part;
  });
}

// How much of it went to which part of the prompt: [part, share], the most first.
export function byPart(said, weights) {
  const sums = new Map();
  partOf(said).forEach((part, token) => sums.set(part, (sums.get(part) ?? 0) + weights[token]));
  return [...sums].sort(([, one], [, other]) => other - one);
}

// How much of the needles is left in a cache that is not whole: the mean of their tokens.
export function leftOfNeedles(said) {
  const parts = partOf(said);
  const left = [...said.left].filter((_, token) => parts[token] === "needle");
  return left.reduce((sum, share) => sum + share, 0) / left.length;
}

// How high the bars of a strip are, from 0 to 1: one for each place of the context. The first token
// is left out, for it would dwarf all others.
export function bars(weights) {
  const sums = new Array(BINS).fill(0);
  const width = weights.length / BINS;
  weights.forEach((share, token) => {
    if (token) sums[Math.min(BINS - 1, Math.floor(token / width))] += share;
  });
  const most = Math.max(...sums);
  return sums.map((sum) => (most ? sum / most : 0));
}

// A strip as wide as the context.
export function strip(weights, said) {
  const drawing = document.createElement("div");
  drawing.className = "looked";
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", said);
  drawing.append(...bars(weights).map((height) => {
    const bar = document.createElement("span");
    bar.style.height = `${100 * height}%`;
    return bar;
  }));
  return drawing;
}

// Take the marks out of the prompt.
export function unmark(box) {
  for (const mark of box.querySelectorAll("span.took")) mark.replaceWith(...mark.childNodes);
  box.normalize();
}

// Mark the tokens that most was taken from. `shown` has the rows of the prompt that stand in the
// box, each with what stands before it there and not in the prompt.
export function mark(box, { prompt, starts }, weights, shown) {
  unmark(box);
  // Of every row that is shown: where it begins in the prompt, and in the box.
  const places = [];
  let [inPrompt, inBox] = [0, 0];
  for (const row of prompt.rows) {
    const lead = shown(row);
    if (lead !== null) {
      places.push([inPrompt, inBox + lead.length, row.text.length]);
      inBox += lead.length + row.text.length;
    }
    inPrompt += row.text.length;
  }
  const most = Math.max(...weights.slice(1));
  const chosen = [...weights.keys()].slice(1).filter((token) => weights[token] > LEAST * most)
    .sort((one, other) => weights[other] - weights[one]).slice(0, MARKED)
    .sort((one, other) => other - one);
  for (const token of chosen) {
    const place = places.find(([from, , size]) => starts[token] >= from && starts[token] < from + size);
    if (!place) continue;
    const begin = place[1] + starts[token] - place[0];
    wrap(box, begin, begin + starts[token + 1] - starts[token], weights[token] / most);
  }
}

// Put a mark around some letters of a box, as far as they stand in one piece.
function wrap(box, begin, end, strength) {
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  let at = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const next = at + node.data.length;
    if (begin < next) {
      const range = document.createRange();
      range.setStart(node, begin - at);
      range.setEnd(node, Math.min(end, next) - at);
      const made = document.createElement("span");
      made.className = "took";
      made.style.setProperty("--strength", strength.toFixed(2));
      range.surroundContents(made);
      return;
    }
    at = next;
  }
}
