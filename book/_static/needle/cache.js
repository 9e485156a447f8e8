// What is done to the cache of a prompt before it is asked: keys and values in fewer bits, and
// tokens that are dropped. Each head of each layer has a cache of its own.

// Numbers that share a scale, as in llama.cpp.
const BLOCK = 32;

// The first tokens stay where the oldest are dropped: heads rest there (StreamingLLM).
const SINKS = 4;

// A cache as a control says it, "oldest-50" of 8 bits: {bits, dropped, share}.
export function cacheOf({ bits = "32", drop = "" }) {
  const [dropped, share] = drop.split("-");
  return { bits: Number(bits), dropped, share: Number(share ?? 0) / 100 };
}

export const isWhole = ({ bits, share }) => bits === 32 && !share;

// Change what a model keeps of the tokens that it has read. Returns for each of them in how many of
// the heads it is left, as a share.
export function compress(model, { bits, dropped, share }) {
  const { layers, heads, longest, ids, gone, got } = model;
  const left = new Float32Array(ids.length).fill(1);
  const count = ids.length - Math.floor(ids.length * (1 - share));
  for (let row = 0; row < layers * heads; row++) {
    const attention = got.subarray(row * longest, row * longest + ids.length);
    for (const token of chosen(attention, dropped, count)) {
      gone[row * longest + token] = 1;
      left[token] -= 1 / (layers * heads);
    }
    if (bits < 32) shorten(model, row, bits);
  }
  return left;
}

// The tokens that are dropped. The least attended are those that got least of the tokens behind
// them, in the mean (kvpress' ObservedAttention).
function chosen(attention, dropped, count) {
  const tokens = [...attention.keys()];
  if (dropped === "oldest") return tokens.slice(SINKS, SINKS + count);
  const mean = tokens.map((token) => attention[token] / (tokens.length - token));
  return tokens.sort((one, other) => mean[one] - mean[other]).slice(0, count);
}

// Round keys and values, a block at a time.
function shorten({ keys, values, size, longest, ids }, row, bits) {
  const round = bits === 8 ? eight : four;
  const block = new Float32Array(BLOCK);
  for (const [view, at] of [
    [keys.view, (token, j) => row * longest * size + token * size + j],
    [values.view, (token, j) => row * longest * size + j * longest + token],
  ]) {
    for (let token = 0; token < ids.length; token++) {
      for (let first = 0; first < size; first += BLOCK) {
        for (let j = 0; j < BLOCK; j++) block[j] = view[at(token, first + j)];
        round(block);
        for (let j = 0; j < BLOCK; j++) view[at(token, first + j)] = block[j];
      }
    }
  }
}

const { fround } = Math;

// llama.cpp's q8_0, whose scale is not rounded here.
function eight(block) {
  const most = block.reduce((most, number) => Math.max(most, Math.abs(number)), 0);
  if (!most) return;
  const scale = fround(most / 127);
  const inverse = fround(1 / scale);
  block.forEach((number, j) => {
    const scaled = fround(number * inverse);
    block[j] = fround(Math.sign(scaled) * Math.floor(fround(Math.abs(scaled) + 0.5))) * scale;
  });
}

// llama.cpp's q4_0: the number that is farthest from 0 becomes -8.
function four(block) {
  const most = block.reduce((most, number) => (Math.abs(number) > Math.abs(most) ? number : most), 0);
  if (!most) return;
  const scale = fround(most / -8);
  const inverse = fround(1 / scale);
  block.forEach((number, j) => {
    const scaled = fround(fround(number * inverse) + 8.5);
    block[j] = (Math.min(15, Math.trunc(scaled)) - 8) * scale;
  });
}
