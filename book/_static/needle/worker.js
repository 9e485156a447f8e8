// Counts, composes and answers, away from the page, which so never freezes.
//
// Each message {id, kind, ...} gets one reply {id, result} or {id, error, mistake}; a load and a
// question report their {id, progress} before it. The kinds are the keys of `kinds` below.

import { Tokenizer } from "../vendor/@huggingface/tokenizers/dist/tokenizers.min.mjs";
import { cacheOf } from "./cache.js";
import { Model } from "./model.js";
import { Prompts } from "./prompt.js";

// Files that were made together bear one version, so that no old one comes out of a cache.
const version = new URL(self.location.href).search;
const get = async (name) => {
  const answer = await fetch(new URL(name + version, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return answer;
};

// What was asked for once is not fetched again; what failed may be tried again.
const remembered = new Map();
const once = (name, make) => {
  if (!remembered.has(name)) {
    remembered.set(name, make().catch((error) => {
      remembered.delete(name);
      throw error;
    }));
  }
  return remembered.get(name);
};
const json = (name) => once(name, async () => (await get(name)).json());

const tokenizer = () => once("tokenizer", async () =>
  new Tokenizer(await json("tokenizer.json"), await json("tokenizer_config.json")));

const encode = (tokenizer, text, add_special_tokens = false) =>
  tokenizer.encode(text, { add_special_tokens }).ids;

const prompts = (code) => once(`prompts ${code}`, async () => {
  const [page, language, made] = await Promise.all(
    [json("page.json"), json(`${code}.json`), tokenizer()]);
  return new Prompts(page, language, (text) => encode(made, text).length);
});

// Where each token begins in a text, and at last where it ends, in UTF-16's units. A token of a
// byte-level tokenizer has a letter for each of its bytes.
function starts(tokenizer, text, special) {
  const { tokens } = tokenizer.encode(text, { add_special_tokens: special });
  // The letter in which each byte of the text stands.
  const letters = [];
  let unit = 0;
  for (const letter of text) {
    const bytes = new TextEncoder().encode(letter).length;
    for (let i = 0; i < bytes; i++) letters.push(unit);
    unit += letter.length;
  }
  letters.push(unit);
  let byte = 0;
  const found = [];
  tokens.forEach((token, number) => {
    found.push(letters[byte]);
    // The first one may be added, and stands in no text.
    if (number || !special) byte += token.length;
  });
  return [...found, letters[byte]];
}

// A file in one piece, and a report of how much of it has come.
async function bytes(name, size, report) {
  const reader = (await get(name)).body.getReader();
  const whole = new Uint8Array(size);
  let done = 0;
  for (;;) {
    const piece = await reader.read();
    if (piece.done) break;
    if (done + piece.value.length > size) throw new Error(`${name} is not ${size} bytes`);
    whole.set(piece.value, done);
    done += piece.value.length;
    report({ done, of: size });
  }
  if (done !== size) throw new Error(`${name} is not ${size} bytes`);
  return whole.buffer;
}

const model = (report) => once("model", async () => {
  const [page, config, file] = await Promise.all(
    [json("page.json"), json("config.json"), get("kernel.wasm")]);
  const kernel = await file.arrayBuffer();
  // Before the large file is fetched.
  if (typeof WebAssembly !== "object" || !WebAssembly.validate(kernel)) {
    throw new Error("no SIMD in WebAssembly");
  }
  const weights = await bytes("model.safetensors", page.sizes["model.safetensors"], report);
  return Model.load({ config, kernel, weights, ends: page.ends, longest: page.lengths.most });
});

// Lets what has arrived in the meantime be heard.
const channel = new MessageChannel();
const breath = () => new Promise((resolve) => {
  channel.port1.onmessage = resolve;
  channel.port2.postMessage(null);
});

let stopped = false;

const kinds = {
  // {setting} -> the prompt, as Prompts.make has it
  prompt: async ({ setting }) =>
    (await prompts(setting.language)).make(setting),

  // {} -> {seconds}
  load: async (_, report) => {
    const begin = performance.now();
    await Promise.all([model(report), tokenizer()]);
    return { seconds: (performance.now() - begin) / 1000 };
  },

  // {setting} -> {prompt, text, verdict, found, ending, ids, read, kept, seconds}; null where
  // stopped. `found` is how many of the values that are asked for the answer has. And
  // where it looked: `pieces`, the answer's tokens as texts; `starts`, where each token of the
  // prompt begins; `took`, for each piece its attention over the prompt's tokens; and `left`, how
  // much of each token is left in a cache that is not whole.
  ask: async ({ setting }, report) => {
    stopped = false;
    const composer = await prompts(setting.language);
    const prompt = composer.make(setting);
    const [words, llama] = await Promise.all([tokenizer(), model(report)]);
    const begin = performance.now();
    // A chat template has its special tokens in its text.
    const special = !composer.page.frame.chat;
    const read = encode(words, prompt.fed, special);
    if (read.length + prompt.generate !== prompt.length) {
      throw new Error(`counted ${prompt.length}, but there are ${read.length + prompt.generate}`);
    }
    const steps = llama.answer(read, prompt.generate, cacheOf(setting));
    let step = steps.next();
    while (!step.done) {
      report(step.value);
      await breath();
      if (stopped) return null;
      step = steps.next();
    }
    const { said, took, finished, kept, left } = step.value;
    const text = words.decode(said, { skip_special_tokens: true });
    const seconds = (performance.now() - begin) / 1000;
    const { outputs, others } = prompt;
    const { texts } = composer;
    return {
      prompt, text, found: texts.found(text, outputs),
      verdict: texts.verdict(text, outputs, others),
      ending: texts.ending(text, [...outputs, ...others], finished),
      ids: said, read: read.length, kept, seconds, took, left,
      pieces: said.map((id) => words.decode([id], { skip_special_tokens: true })),
      starts: starts(words, prompt.fed, special),
    };
  },

  // {} -> null; the question that is being read is dropped
  stop: async () => {
    stopped = true;
    return null;
  },
};

self.onmessage = async ({ data }) => {
  const { id, kind } = data;
  try {
    const report = (progress) => self.postMessage({ id, progress });
    self.postMessage({ id, result: await kinds[kind](data, report) });
  } catch (error) {
    self.postMessage({ id, error: error.message, mistake: error.name === "Mistake" });
  }
};
