// The model, read from its own files: a Llama's forward pass in float32.
//
// The weights are the shipped model.safetensors as it is; its bfloat16 numbers are the upper
// halves of float32 ones. Everything lies in one memory that kernel.wat's `dots` works on, and
// the rest is plain JavaScript on views of it. Greedy decoding, one prompt at a time.

import { compress, isWhole } from "./cache.js";

// Tokens that are read together. In between, a worker hears whether it should stop.
const CHUNK = 128;

const PAGE = 65536;

// Up to a multiple of four: what the kernel wants of columns.
const four = (count) => (count + 3) & ~3;
const even = (count) => (count + 1) & ~1;

export class Model {
  // config: the model's config.json; kernel: the bytes of kernel.wasm; weights: those of
  // model.safetensors; ends: the tokens that end an answer; longest: tokens of a whole sequence.
  static async load({ config, kernel, weights, ends, longest }) {
    const { instance } = await WebAssembly.instantiate(kernel);
    return new Model(config, instance.exports, weights, ends, longest);
  }

  constructor(config, { memory, dots }, file, ends, longest) {
    this.layers = config.num_hidden_layers;
    this.heads = config.num_attention_heads;
    this.size = config.head_dim;
    this.hidden = config.hidden_size;
    this.inner = config.intermediate_size;
    this.vocabulary = config.vocab_size;
    this.epsilon = config.rms_norm_eps;
    this.ends = ends;
    // So many tokens of keys and values are kept, and so long is a row of attention.
    this.longest = four(longest);
    this.dots = (a, aStep, rows, b, bStep, columns, inner, c, cStep) =>
      dots(a.at, 4 * aStep, even(rows), b.at, 4 * bStep, columns, inner, c.at, 4 * cStep);

    const tensors = read(file);
    const scratch = {
      x: CHUNK * this.hidden, // what is carried from layer to layer
      y: CHUNK * this.hidden, // the same, normalized
      q: CHUNK * this.hidden,
      k: CHUNK * this.hidden,
      v: CHUNK * this.hidden,
      mixed: CHUNK * this.hidden, // what attention brings
      out: CHUNK * this.hidden,
      gate: CHUNK * this.inner,
      up: CHUNK * this.inner,
      scores: CHUNK * this.longest, // of one head
      logits: 2 * this.vocabulary, // the kernel makes two rows
    };
    const kept = this.layers * this.longest * this.heads * this.size;
    const sizes = [...Object.values(tensors).map(({ data }) => data.length),
                   ...Object.values(scratch), kept, kept];
    const floats = sizes.reduce((sum, size) => sum + four(size), 0);
    memory.grow(Math.ceil((4 * floats) / PAGE));
    let top = 0;
    const place = (length) => {
      const view = new Float32Array(memory.buffer, top, length);
      top += 4 * four(length);
      return { at: view.byteOffset, view };
    };
    this.weights = {};
    for (const [name, { data, brief }] of Object.entries(tensors)) {
      const placed = place(data.length);
      if (brief) {
        const bits = new Uint32Array(memory.buffer, placed.at, data.length);
        for (let i = 0; i < data.length; i++) bits[i] = data[i] << 16;
      } else {
        placed.view.set(data);
      }
      this.weights[name] = placed;
    }
    for (const [name, length] of Object.entries(scratch)) this[name] = place(length);
    // A key is a row, one for each token; of values, each number has a row, with all tokens in
    // it. So both are what the kernel takes. Each head of each layer has its own.
    this.keys = place(kept);
    this.values = place(kept);
    this.turns = turns(config.rope_theta ?? config.rope_parameters.rope_theta, this.size,
                       this.longest);
    // For each token of each head: whether its key and value are dropped, and the attention that
    // it got; null while the cache is whole.
    this.gone = this.got = null;
    this.ids = [];
  }

  // The answer to a prompt, as tokens. What the prompt has in common with the one before is not
  // read again. Generates {done, of} while it reads, so that whoever asks can stop. Beside each
  // token stands what it took from where: the attention over the prompt. Of a cache that is not
  // whole, `left` says how much of each token is left when the last one is read.
  *answer(prompt, room, cache) {
    const whole = isWhole(cache);
    let kept = 0;
    // The last token is read anew in any case: its logits are wanted.
    while (whole && kept < prompt.length - 1 && this.ids[kept] === prompt[kept]) kept++;
    this.ids.length = kept;
    const rows = this.layers * this.heads * this.longest;
    this.gone = whole ? null : new Uint8Array(rows);
    this.got = whole ? null : new Float64Array(rows);
    const read = whole ? prompt.length : prompt.length - 1;
    for (let start = kept; start < read; start += CHUNK) {
      this.forward(prompt.slice(start, Math.min(start + CHUNK, read)));
      yield { done: this.ids.length, of: prompt.length };
    }
    let left = null;
    if (!whole) {
      left = compress(this, cache);
      this.forward(prompt.slice(read));
    }
    const [said, took] = [[], []];
    let finished = false;
    while (said.length < room && !finished) {
      const next = this.next();
      said.push(next);
      took.push(this.looked.slice(0, prompt.length));
      finished = this.ends.includes(next);
      if (said.length < room && !finished) this.forward([next]);
    }
    // What was dropped or rounded is of no use to the next prompt.
    if (!whole) this.ids.length = 0;
    return { said, took, finished, kept, left };
  }

  // Read some more tokens, 128 at most; afterwards `next` says which one follows.
  forward(ids) {
    const { hidden, inner, x, y, q, k, v, mixed, out, gate, up, weights } = this;
    const count = ids.length;
    const start = this.ids.length;
    // The mean attention of all heads of all layers, of the last of these tokens.
    this.looked = new Float32Array(start + count);
    const table = weights["model.embed_tokens.weight"].view;
    ids.forEach((id, i) => x.view.set(table.subarray(id * hidden, (id + 1) * hidden), i * hidden));
    for (let layer = 0; layer < this.layers; layer++) {
      const of = (name) => weights[`model.layers.${layer}.${name}`];
      const linear = (from, inputs, name, to, outputs) => {
        this.dots(from, inputs, count, of(`${name}.weight`), inputs, outputs, inputs, to, outputs);
        const bias = of(`${name}.bias`)?.view ?? [];
        for (let i = 0; i < count * outputs; i += outputs) {
          for (let j = 0; j < bias.length; j++) to.view[i + j] += bias[j];
        }
      };
      this.normalize(x, of("input_layernorm.weight"), y, count);
      linear(y, hidden, "self_attn.q_proj", q, hidden);
      linear(y, hidden, "self_attn.k_proj", k, hidden);
      linear(y, hidden, "self_attn.v_proj", v, hidden);
      this.attend(layer, count, start);
      linear(mixed, hidden, "self_attn.o_proj", out, hidden);
      for (let i = 0; i < count * hidden; i++) x.view[i] += out.view[i];

      this.normalize(x, of("post_attention_layernorm.weight"), y, count);
      linear(y, hidden, "mlp.gate_proj", gate, inner);
      linear(y, hidden, "mlp.up_proj", up, inner);
      for (let i = 0; i < count * inner; i++) {
        const g = gate.view[i];
        gate.view[i] = (g / (1 + Math.exp(-g))) * up.view[i];
      }
      linear(gate, inner, "mlp.down_proj", out, hidden);
      for (let i = 0; i < count * hidden; i++) x.view[i] += out.view[i];
    }
    this.ids.push(...ids);
    x.view.copyWithin(0, (count - 1) * hidden, count * hidden);
  }

  // The most probable token after all that was read.
  next() {
    const { x, y, logits, hidden, vocabulary, weights } = this;
    this.normalize(x, weights["model.norm.weight"], y, 1);
    const table = weights["lm_head.weight"] ?? weights["model.embed_tokens.weight"];
    this.dots(y, hidden, 1, table, hidden, vocabulary, hidden, logits, vocabulary);
    let best = 0;
    for (let id = 1; id < vocabulary; id++) if (logits.view[id] > logits.view[best]) best = id;
    return best;
  }

  // Each token looks at itself and at all before it.
  attend(layer, count, start) {
    const { heads, size, hidden, longest, q, k, v, keys, values, scores, mixed } = this;
    const scale = 1 / Math.sqrt(size);
    const seen = four(start + count);
    for (let head = 0; head < heads; head++) {
      const kept = (layer * heads + head) * longest * size;
      const within = (placed, offset) => ({ at: placed.at + 4 * offset });
      for (let i = 0; i < count; i++) {
        const from = i * hidden + head * size;
        this.turn(q.view, from, start + i);
        this.turn(k.view, from, start + i);
        for (let j = 0; j < size; j++) {
          q.view[from + j] *= scale;
          keys.view[kept + (start + i) * size + j] = k.view[from + j];
          values.view[kept + j * longest + start + i] = v.view[from + j];
        }
      }
      this.dots(within(q, head * size), hidden, count, within(keys, kept), size, seen, size,
                scores, longest);
      if (this.gone) this.leave(layer * heads + head, count, start);
      for (let i = 0; i < count; i++) softmax(scores.view, i * longest, start + i + 1, seen);
      if (this.got) this.pay(layer * heads + head, count, start);
      for (let j = 0; j < start + count; j++) {
        this.looked[j] += scores.view[(count - 1) * longest + j] / (heads * this.layers);
      }
      this.dots(scores, longest, count, within(values, kept), longest, size, seen,
                within(mixed, head * size), hidden);
    }
  }

  // Nothing looks at what a head has dropped.
  leave(row, count, start) {
    for (let j = 0; j < start; j++) {
      if (!this.gone[row * this.longest + j]) continue;
      for (let i = 0; i < count; i++) this.scores.view[i * this.longest + j] = -Infinity;
    }
  }

  // Sum up the attention that each token gets in a head.
  pay(row, count, start) {
    for (let i = 0; i < count; i++) {
      for (let j = 0; j <= start + i; j++) {
        this.got[row * this.longest + j] += this.scores.view[i * this.longest + j];
      }
    }
  }

  // The rotary position embedding of one head's numbers.
  turn(view, from, position) {
    const half = this.size / 2;
    for (let j = 0; j < half; j++) {
      const cos = this.turns.cos[position * half + j];
      const sin = this.turns.sin[position * half + j];
      const first = view[from + j];
      const second = view[from + half + j];
      view[from + j] = first * cos - second * sin;
      view[from + half + j] = second * cos + first * sin;
    }
  }

  // RMSNorm of each of `count` rows.
  normalize(from, weight, to, count) {
    const { hidden } = this;
    for (let i = 0; i < count * hidden; i += hidden) {
      let sum = 0;
      for (let j = 0; j < hidden; j++) sum += from.view[i + j] ** 2;
      const scale = 1 / Math.sqrt(sum / hidden + this.epsilon);
      for (let j = 0; j < hidden; j++) to.view[i + j] = from.view[i + j] * scale * weight.view[j];
    }
  }
}

// Probabilities of `count` scores; those up to `end` are of tokens to come, and become 0.
function softmax(view, from, count, end) {
  let most = -Infinity;
  for (let j = from; j < from + count; j++) if (view[j] > most) most = view[j];
  let sum = 0;
  for (let j = from; j < from + count; j++) sum += view[j] = Math.exp(view[j] - most);
  for (let j = from; j < from + count; j++) view[j] /= sum;
  view.fill(0, from + count, from + end);
}

// Cosine and sine of each position's angles, rounded to float32 where transformers rounds.
function turns(base, size, longest) {
  const half = size / 2;
  const cos = new Float32Array(longest * half);
  const sin = new Float32Array(longest * half);
  for (let j = 0; j < half; j++) {
    const speed = Math.fround(1 / Math.fround(base ** ((2 * j) / size)));
    for (let position = 0; position < longest; position++) {
      const angle = Math.fround(position * speed);
      cos[position * half + j] = Math.cos(angle);
      sin[position * half + j] = Math.sin(angle);
    }
  }
  return { cos, sin };
}

// The tensors of a safetensors file: a length, a table of contents in JSON, and the numbers.
function read(file) {
  const length = Number(new DataView(file).getBigUint64(0, true));
  const contents = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
  const tensors = {};
  for (const [name, about] of Object.entries(contents)) {
    if (name === "__metadata__") continue;
    const [begin, end] = about.data_offsets.map((offset) => 8 + length + offset);
    const brief = about.dtype === "BF16";
    if (!brief && about.dtype !== "F32") throw new Error(`${name} is ${about.dtype}`);
    const bytes = file.slice(begin, end);
    tensors[name] = { data: brief ? new Uint16Array(bytes) : new Float32Array(bytes), brief };
  }
  return tensors;
}
