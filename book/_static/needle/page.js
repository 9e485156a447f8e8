// The page "Move the needle": controls, the prompt and its answers.
//
// It computes nothing; worker.js does. What stands on the controls is written by book/browser.py,
// and the words that change come from page.json. What the reader types and what the model says is
// only ever set as text.

import { element } from "./element.js";
import { heatmap } from "./heatmap.js";
import { byPart, leftOfNeedles, mark, shares, strip, unmark } from "./looked.js";
import { picture } from "./picture.js";
import { fill } from "./text.js";

const root = document.querySelector(".ruler-needle");
const part = (name) => root.querySelector(`[data-part="${name}"]`);
const control = (name) => root.querySelector(`[name="${name}"]`);
const buttons = Object.fromEntries(
  [...root.querySelectorAll("button")].map((button) => [button.dataset.part, button]));

// --- The worker -------------------------------------------------------------------------------

const waiting = new Map();
let number = 0;
let worker;

// One message to the worker and its reply.
function send(kind, message = {}, report = () => {}) {
  return new Promise((resolve, reject) => {
    number += 1;
    waiting.set(number, { resolve, reject, report });
    worker.postMessage({ id: number, kind, ...message });
  });
}

const version = `?${root.dataset.version}`;

function start() {
  worker = new Worker(new URL(`worker.js${version}`, import.meta.url), { type: "module" });
  worker.onmessage = ({ data }) => {
    const { resolve, reject, report } = waiting.get(data.id);
    if (data.progress) {
      report(data.progress);
      return;
    }
    waiting.delete(data.id);
    if (data.error === undefined) resolve(data.result);
    else reject(Object.assign(new Error(data.error), { mistake: data.mistake }));
  };
  worker.onerror = (event) => {
    event.preventDefault();
    cannot(event.message || "no worker");
    for (const { reject } of waiting.values()) reject(new Error(event.message || "no worker"));
    waiting.clear();
  };
}

// --- Words ------------------------------------------------------------------------------------

// What the page is of, and its words.
let page;
const say = (name, fields = {}) => fill(page.words[name], fields);
const counted = (count) => count.toLocaleString("en");

function alarm(text) {
  part("alert").textContent = text;
  part("alert").hidden = !text;
}

// What went wrong is said in full: nobody can ask a page that is silent. It may go wrong before
// there are words.
function cannot(reason) {
  alarm(fill(page?.words["cannot"] ?? root.dataset.cannot, { reason }));
}

// What is going on, for the eye, which may look away; and what a screen reader says of it.
function doing(text) {
  part("doing").textContent = text;
}

function aloud(text) {
  part("aloud").textContent = text;
}

const whereabouts = ({ depth, length }) => fill(page.where, { depth, length: counted(length) });

// --- The setting and its prompt ---------------------------------------------------------------

let index = 0;
let prompt = null;
// Where the controls stand at first.
let beginning;

const OWN = ["needle", "question", "prefix", "text"];
const CACHE = ["bits", "drop"];
const FIELDS = ["language", "task", "kind", "haystack", ...CACHE, ...OWN];
const NUMBERS = ["length", "depth"];

// What is not read of a task does not make another setting.
function setting() {
  const made = { index };
  for (const name of FIELDS) made[name] = control(name).value;
  for (const name of NUMBERS) made[name] = Number(control(name).value);
  const { own, kinds } = page.tasks[made.task];
  for (const name of own ? [] : ["haystack", ...OWN]) made[name] = beginning[name];
  if (!kinds) made.kind = beginning.kind;
  if (made.haystack !== "text") made.text = "";
  return made;
}

// The setting as the hash of an address, which no server gets to see: what is not as it began.
function address() {
  const made = new URLSearchParams();
  const now = setting();
  for (const name of [...FIELDS, ...NUMBERS, "index"]) {
    if (String(now[name]) !== String(beginning[name])) made.set(name, now[name]);
  }
  return `${location.pathname}${location.search}${String(made) && `#${made}`}`;
}

// Put the controls where an address says. What it does not name stands as it began, and what is
// no value of a control (a link may be cut short, or made up) is not taken over.
function follow() {
  const said = new URLSearchParams(location.hash.slice(1));
  for (const name of [...FIELDS, ...NUMBERS]) {
    const one = control(name);
    one.value = said.get(name) ?? beginning[name];
    if (one.tagName === "SELECT" && one.selectedIndex < 0) one.value = beginning[name];
  }
  const drawn = Number(said.get("index"));
  index = Number.isSafeInteger(drawn) && drawn >= 0 ? drawn : 0;
  if (OWN.some((name) => control(name).value)) part("own").open = true;
}

// A setting at which somebody stopped is one step of the back button; moving a slider is not many.
let settled;
function settle() {
  clearTimeout(settled);
  settled = setTimeout(keep, 400);
}

function keep() {
  clearTimeout(settled);
  if (address() !== location.pathname + location.search + location.hash) {
    history.pushState(null, "", address());
  }
}

// What all cells of one heatmap share.
const kind = ({ depth, length, index, ...rest }) => JSON.stringify(rest);

let moved = 0;

// Show the prompt of where the controls stand; of several moves in a row, the last.
async function refresh() {
  moved += 1;
  const move = moved;
  for (const name of ["length", "depth"]) {
    const range = control(name);
    const said = name === "depth" ? `${range.value}%` : counted(Number(range.value));
    part(`${name}-value`).textContent = said;
    range.setAttribute("aria-valuetext", said);
  }
  const { own, kinds } = page.tasks[control("task").value];
  part("own").hidden = control("haystack").parentElement.hidden = !own;
  control("kind").parentElement.hidden = !kinds;
  try {
    const made = await send("prompt", { setting: setting() });
    if (move !== moved) return;
    prompt = made;
    alarm("");
    showPrompt();
  } catch (error) {
    if (move !== moved) return;
    prompt = null;
    for (const name of ["prompt", "strip", "key", "note"]) part(name).replaceChildren();
    part("looked").hidden = true;
    failed(error);
  }
  draw();
}

// Say what went wrong; the answer to another question does not stay beside it.
function failed(error) {
  if (error.mistake) alarm(error.message);
  else cannot(error.message);
  shown = null;
  showAnswer();
}

// What stands in the box before a row of the prompt; null where the row does not stand there.
const lead = ({ part, text }) => (part === "template" || !text ? null : part === "prefix" ? " " : "");

function showPrompt() {
  const box = part("prompt");
  box.lang = control("language").value;
  box.replaceChildren(...prompt.rows.filter((row) => lead(row) !== null).map((row) => {
    const { text, part, value, moved, seam } = row;
    if (part === "distractor" && !seam) return element("mark", text, { class: part });
    if (part !== "needle") return document.createTextNode(lead(row) + text);
    const at = text.lastIndexOf(value);
    return element("mark", [text.slice(0, at), element("span", value, { class: "value" }),
                            text.slice(at + value.length)],
                   { class: moved ? `${part} moved` : part });
  }));
  showLooked();
  // The needle in the middle of the box, without moving the page.
  const needle = box.querySelector("mark.moved");
  box.scrollTop = needle ? needle.offsetTop - (box.clientHeight - needle.offsetHeight) / 2 : 0;

  const { own } = prompt;
  part("note").textContent = !own || own.read === own.of ? ""
    : say(own.read < own.of ? "longer" : "shorter", { read: counted(own.read), of: counted(own.of) });

  const runs = spent(prompt);
  part("strip").replaceChildren(...runs.map(([name, tokens]) => {
    const made = element("span", [], { class: name });
    made.style.flexGrow = tokens;
    return made;
  }));
  const sums = Object.keys(page.parts).map((name) => [
    name, runs.reduce((sum, [other, tokens]) => sum + (other === name) * tokens, 0)]);
  part("key").replaceChildren(...sums.filter(([, sum]) => sum).map(([name, sum]) =>
    element("li", [element("span", [], { class: `swatch ${name}` }), `${page.parts[name]}: `,
                   element("b", counted(sum))])));
}

// What the length is spent on: [part, tokens], in their order.
function spent({ rows }) {
  const runs = [];
  for (const { part, tokens } of rows) {
    const last = runs[runs.length - 1];
    if (last && last[0] === part) last[1] += tokens;
    else if (tokens) runs.push([part, tokens]);
  }
  return runs;
}

// The piece of the answer whose attention is shown; null: that of the whole answer.
let piece = null;

// Which parts an answer, or a piece of it, was taken from, in words: the most first.
function toldOf(said, weights) {
  const names = { ...page.parts, beginning: page.looked.beginning };
  return byPart(said, weights).filter(([, share]) => share >= 0.005)
    .map(([name, share]) => `${names[name]} ${Math.round(100 * share)}%`).join(", ");
}

// Show where the model looked, if the prompt that is shown is one that it has answered.
function showLooked() {
  const said = prompt && answers.get(JSON.stringify(setting()));
  part("looked").hidden = !said;
  unmark(part("prompt"));
  if (!said) return;
  if (piece >= said.pieces.length) piece = null;
  const weights = shares(said, piece);
  const told = toldOf(said, weights);
  const choose = (at, label) => {
    const made = element("button", label, { type: "button", "aria-pressed": String(at === piece) });
    made.addEventListener("click", () => {
      piece = at;
      showLooked();
      const row = part("looked").querySelectorAll("button");
      row[at === null ? 0 : 1 + at].focus();
    });
    return made;
  };
  part("looked").replaceChildren(
    element("b", page.looked.title),
    element("div", [choose(null, page.looked.whole),
                    ...said.pieces.map((text, at) => choose(at, text.trim() || (text ? "␣" : page.looked.end)))],
            { class: "pieces", role: "group", "aria-label": page.looked.pieces }),
    strip(weights, `${page.looked.title}: ${told}`),
    element("p", `${told}. ${page.looked.about}`, { class: "small" }));
  mark(part("prompt"), said, weights, lead);
}

// --- Asking -----------------------------------------------------------------------------------

let loaded = false;
let busy = false;
let halted = false;
// The setting that is being asked.
let asking = null;

// Every answer so far, by its setting: decoding is greedy, so nothing is asked twice.
const answers = new Map();

async function load() {
  const bar = part("progress");
  bar.hidden = false;
  try {
    aloud(say("loading"));
    await send("load", {}, ({ done, of }) => {
      bar.value = done / of;
      doing(`${say("loading")}: ${Math.round((100 * done) / of)}%`);
    });
    loaded = true;
  } finally {
    bar.hidden = true;
  }
}

async function answer(wanted) {
  const key = JSON.stringify(wanted);
  if (!answers.has(key)) {
    asking = wanted;
    draw();
    const about = { model: page.model, where: whereabouts(wanted) };
    const said = await send("ask", { setting: wanted }, ({ done, of }) =>
      doing(say("reading", { ...about, done: counted(done), of: counted(of) })));
    if (said === null) return null;
    answers.set(key, { ...said, setting: wanted, of: said.prompt.outputs.length });
  }
  return answers.get(key);
}

// Do something that takes long: one at a time, with a way to stop it, and nothing silent.
async function during(work) {
  busy = true;
  halted = false;
  alarm("");
  draw();
  try {
    if (!loaded) await load();
    await work();
  } catch (error) {
    failed(error);
  } finally {
    busy = false;
    asking = null;
    doing("");
    aloud("");
    draw();
  }
}

const ask = (wanted = setting()) => during(async () => {
  aloud(say("asking", { model: page.model, where: whereabouts(wanted) }));
  const said = await answer(wanted);
  if (said) show({ said });
});

// All depths at some lengths, the short ones first; a length that is too short is left out.
const series = (lengths) => during(async () => {
  const first = setting();
  const begin = performance.now();
  const all = [];
  aloud(say("asking", { model: page.model, where: "" }).trim());
  for (const length of lengths) {
    for (const depth of page.rows) {
      if (halted) break;
      try {
        const one = await answer({ ...first, depth, length });
        if (one) all.push(one);
      } catch (error) {
        if (!error.mistake || lengths.length === 1) throw error;
        break;
      }
    }
  }
  show({ all, lengths, seconds: (performance.now() - begin) / 1000 });
});

// Longer and longer, until an answer is not right. One needle is found at every length of this page,
// so that from there on four values are asked for.
const breaks = () => during(async () => {
  if (control("task").value === beginning.task && !OWN.some((name) => control(name).value)) {
    control("task").value = "values";
    await refresh();
  }
  const first = setting();
  let last = null;
  aloud(say("asking", { model: page.model, where: "" }).trim());
  for (const length of page.lengths.breaks) {
    try {
      const said = await answer({ ...first, length });
      if (!said) return;
      control("length").value = length;
      if (said.found < said.of) {
        keep();
        await refresh();
        show({ said, first: last ? ["broken", { last, length }] : ["at once", { length }] });
        return;
      }
      last = length;
    } catch (error) {
      // A length that is too short for the prompt.
      if (!error.mistake) throw error;
    }
  }
  if (last === null) throw Object.assign(new Error(say("too long")), { mistake: true });
  keep();
  await refresh();
  show({ said: answers.get(JSON.stringify(setting())), first: ["unbroken", { length: last }] });
});

// --- Answers ----------------------------------------------------------------------------------

// What stands in the box of answers: {said, first}, an answer and a sentence before it, or {all},
// a series; and the answer that another is compared with.
let shown = null;
let kept = null;

function show(what) {
  shown = what;
  piece = null;
  showAnswer();
  showLooked();
}

// What a control shows where it stands at a setting.
const label = (name, setting) =>
  [...control(name).options].find(({ value }) => value === setting[name]).textContent;

// What was done to the cache, in words; nothing where it is whole.
const cached = (setting) => CACHE.filter((name) => setting[name] !== beginning[name])
  .map((name) => `, ${control(name).labels[0].textContent}: ${label(name, setting)}`).join("");

const grade = ({ found, of, ending }) =>
  found < of ? "bad" : ending === "repeats" ? "fair" : "good";

const verdict = ({ verdict, ending, found, of }) =>
  fill(page.verdicts[verdict], { found, n: of }) + page.verdicts[ending];

// An answer: the verdict, the text and the reference.
function told(said) {
  const { setting, seconds, text, read, kept, prompt } = said;
  const before = kept ? say("kept", { kept: counted(kept) }) : "";
  const about = `${whereabouts(setting)}${cached(setting)}, ${page.model}, ${seconds.toLocaleString("en",
    { minimumFractionDigits: 1, maximumFractionDigits: 1 })} s`;
  return [
    element("div", [element("b", verdict(said)), ` (${about})`]),
    element("div", text.trim() ? element("span", `“${text.trim()}”`, { lang: setting.language })
                               : element("i", page.empty), { class: "said" }),
    element("div", `${page.reference} ${prompt.outputs.join(", ")}`),
    element("div", say("read", { read: counted(read), before }) + (said.left ? ` ${say("left",
      { share: Math.round(100 * leftOfNeedles(said)) })}` : ""), { class: "small" }),
  ];
}

function showAnswer() {
  const box = part("answer");
  box.className = "say";
  if (!shown) {
    box.textContent = page.labels["not asked"];
  } else if (shown.all) {
    const [found, of] = ["found", "of"].map((name) =>
      shown.all.reduce((sum, one) => sum + one[name], 0));
    box.className = `say ${of && found === of ? "good" : "bad"}`;
    const about = { lengths: shown.lengths.map(counted).join(", "), model: page.model,
                    seconds: shown.seconds.toLocaleString("en", { maximumFractionDigits: 1 }) };
    box.replaceChildren(element("div", [element("b", say("found", { found, of })),
                                        ` (${say("series", about)})`]));
  } else {
    const { said, first } = shown;
    box.className = `say ${grade(said)}`;
    const numbers = ([name, about]) => say(name, Object.fromEntries(
      Object.entries(about).map(([key, value]) => [key, counted(value)])));
    box.replaceChildren(...(first ? [element("div", element("b", numbers(first)))] : []),
                        ...told(said));
  }
  part("kept").hidden = !kept;
  if (kept) {
    const weights = shares(kept, null);
    const where = toldOf(kept, weights);
    part("kept").className = `say ${grade(kept)}`;
    part("kept").replaceChildren(
      element("div", `${say("compared")} ${label("task", kept.setting)}`, { class: "small" }), ...told(kept),
      strip(weights, `${page.looked.title}: ${where}`), element("div", where, { class: "small" }));
  }
  buttons.compare.setAttribute("aria-pressed", String(Boolean(kept)));
}

// --- The heatmap ------------------------------------------------------------------------------

// Go to a cell of the heatmap: to its last answer, or to a question that nobody asked yet.
function go(length, column, last) {
  if (busy) return;
  control("length").value = length;
  control("depth").value = last ? last.setting.depth : page.rows[column];
  if (last) index = last.setting.index;
  keep();
  refresh().then(() => (last ? show({ said: last }) : ask()));
}

// The answers of the heatmap that belongs to the setting.
const alike = () => {
  const now = kind(setting());
  return [...answers.values()].filter((one) => kind(one.setting) === now);
};

function draw() {
  const current = asking && kind(asking) === kind(setting()) ? asking : null;
  heatmap(part("found"), alike(), current, { page, say, counted, whereabouts, go });
  for (const name of ["link", "picture"]) buttons[name].setAttribute("aria-disabled", "false");
  for (const name of ["ask", "breaks", "depths", "lengths", "another"]) {
    // Not disabled: a button that loses the focus loses whoever works by keyboard.
    const off = busy || (name !== "another" && !prompt)
      || (!loaded && !["ask", "another"].includes(name));
    buttons[name].setAttribute("aria-disabled", String(off));
  }
  buttons.stop.setAttribute("aria-disabled", String(!busy || !loaded));
  buttons.compare.setAttribute("aria-disabled", String(!kept && !shown?.said));
  if (loaded) buttons.ask.textContent = page.labels.ask;
}

// What stands in a picture: the setting, the answer to it if there is one, and the heatmap.
function drawn() {
  const now = setting();
  const said = answers.get(JSON.stringify(now));
  const named = ["task", "kind", "language"].filter((name) => !control(name).parentElement.hidden);
  const cells = [...part("found").querySelectorAll("tr")].map((row) =>
    [...row.querySelectorAll("th, button")].map((cell) => ({
      said: [...cell.childNodes].filter((node) => !node.classList?.contains("unseen"))
        .map((node) => node.textContent).join(""),
      ...(cell.style.background ? { fill: cell.style.background, ink: cell.style.color } : {}),
    })));
  return {
    title: named.map((name) => label(name, now)).join(" · "),
    about: `${page.model}, ${whereabouts(now)}${cached(now)}`,
    runs: prompt ? spent(prompt) : [],
    colours: page.colours,
    weights: said && shares(said, null),
    answer: said && { verdict: verdict(said), said: said.text.trim() ? `“${said.text.trim()}”` : page.empty,
                      wanted: `${page.reference} ${said.prompt.outputs.join(", ")}`, grade: grade(said) },
    table: part("found").hidden ? [] : cells,
    address: `${location.host}${location.pathname}`,
  };
}

// --- Beginning --------------------------------------------------------------------------------

function on(name, action) {
  buttons[name].addEventListener("click", () => {
    if (buttons[name].getAttribute("aria-disabled") !== "true") action();
  });
}

// Put something on the clipboard, and say so; where a browser lets no page do that, say what to do.
async function copy(what, write) {
  try {
    await write();
    aloud(say(`${what} copied`));
    doing(say(`${what} copied`));
  } catch {
    alarm(say(`${what} not copied`));
  }
}

on("ask", () => ask());
on("breaks", breaks);
on("depths", () => series([setting().length]));
on("lengths", () => series(page.lengths.columns));
on("another", () => {
  index += 1;
  keep();
  refresh();
});
on("link", () => {
  keep();
  return copy("link", () => navigator.clipboard.writeText(location.href));
});
on("picture", () => copy("picture", () =>
  // Made while it is written: Safari lets a page write only what it promised when it was clicked.
  navigator.clipboard.write([new ClipboardItem({ "image/png": picture(drawn()) })])));
on("compare", () => {
  kept = kept ? null : shown.said;
  showAnswer();
  draw();
});
on("stop", () => {
  halted = true;
  send("stop");
});
for (const name of [...FIELDS, ...NUMBERS]) {
  control(name).addEventListener("input", () => {
    // Whoever writes a text wants to see it read.
    if (name === "text" && control("text").value.trim()) control("haystack").value = "text";
    if (name === "haystack" && control("haystack").value === "text") part("own").open = true;
    settle();
    refresh();
  });
}
for (const event of ["popstate", "hashchange"]) {
  window.addEventListener(event, () => {
    clearTimeout(settled);
    // A link within the page is no setting.
    if (location.hash && !location.hash.includes("=")) return;
    follow();
    refresh();
  });
}
// Enter in a field is no reason to leave the page.
part("app").addEventListener("submit", (event) => event.preventDefault());
try {
  start();
  page = await (await fetch(new URL(`page.json${version}`, import.meta.url))).json();
  control("text").maxLength = page.lengths.text + 1;
  beginning = Object.fromEntries(FIELDS.map((name) => [name, control(name).value]));
  beginning = { ...beginning, ...setting() };
  follow();
  part("starting").remove();
  part("app").hidden = false;
  await refresh();
} catch (error) {
  cannot(error.message);
}
