// The page "Move the needle": controls, the prompt, answers and the heatmap.
//
// It computes nothing; worker.js does. What stands on the controls is written by book/browser.py,
// and the words that change come from page.json. What the reader types and what the model says
// is only ever set as text.

import { byPart, mark, shares, strip, unmark } from "./looked.js";
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

function start() {
  const version = `?${root.dataset.version}`;
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
  return fetch(new URL(`page.json${version}`, import.meta.url)).then((answer) => answer.json());
}

// --- Small things -----------------------------------------------------------------------------

function element(name, content = [], attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...[content].flat());
  return made;
}

const counted = (count) => count.toLocaleString("en");
const unseen = (text) => element("span", text, { class: "unseen" });

function alarm(text) {
  part("alert").textContent = text;
  part("alert").hidden = !text;
}

// What went wrong is said in full: nobody can ask a page that is silent.
function cannot(reason) {
  alarm(`The model cannot run here (${reason}). It needs a browser from 2023 or later`
    + " (Chromium 91, Firefox 114, Safari 16.4), and files that the site serves itself;"
    + " reload the page to try again.");
}

// --- The setting and its prompt ---------------------------------------------------------------

let page;
let index = 0;
let prompt = null;
// Where the controls stand at first.
let beginning;

const FIELDS = ["language", "kind", "haystack", "needle", "question", "prefix", "text"];
const NUMBERS = ["length", "depth", "distractors"];

function setting() {
  const made = { index };
  for (const name of FIELDS) made[name] = control(name).value;
  for (const name of NUMBERS) made[name] = Number(control(name).value);
  // What is not read does not make another setting.
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
  if (["needle", "question", "prefix", "text"].some((name) => control(name).value)) {
    part("own").open = true;
  }
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
    const said = name === "depth" ? `${range.value} %` : counted(Number(range.value));
    part(`${name}-value`).textContent = said;
    range.setAttribute("aria-valuetext", said);
  }
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
  part("answer").className = "say";
  part("answer").textContent = page.labels["not asked"];
}

function showPrompt() {
  const box = part("prompt");
  box.lang = control("language").value;
  const shown = prompt.rows.filter((row) => lead(row) !== null);
  box.replaceChildren(...shown.map((row) => {
    const { text, part, value } = row;
    if (part === "distractor") return element("mark", text, { class: part });
    if (part !== "needle") return document.createTextNode(lead(row) + text);
    const at = text.lastIndexOf(value);
    return element("mark", [text.slice(0, at), element("span", value, { class: "value" }),
                            text.slice(at + value.length)], { class: part });
  }));
  showLooked();
  // The needle in the middle of the box, without moving the page.
  const needle = box.querySelector("mark.needle");
  box.scrollTop = needle.offsetTop - (box.clientHeight - needle.offsetHeight) / 2;

  const { own } = prompt;
  part("note").textContent = !own ? "" : own.read < own.of
    ? `Your text is longer: its first ${counted(own.read)} of ${counted(own.of)} sentences fit.`
    : own.read > own.of ? "Your text is shorter, and begins again after its end." : "";

  const strip = part("strip");
  const runs = [];
  for (const { part, tokens } of prompt.rows) {
    const last = runs[runs.length - 1];
    if (last && last[0] === part) last[1] += tokens;
    else if (tokens) runs.push([part, tokens]);
  }
  strip.replaceChildren(...runs.map(([name, tokens]) => {
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

// What stands in the box before a row of the prompt; null where the row does not stand there.
const lead = ({ part, text }) => (part === "template" || !text ? null : part === "prefix" ? " " : "");

// The piece of the answer whose attention is shown; null: that of the whole answer.
let piece = null;

// Show where the model looked, if the prompt that is shown is one that it has answered.
function showLooked() {
  const said = prompt && answers.get(JSON.stringify(setting()));
  part("looked").hidden = !said;
  unmark(part("prompt"));
  if (!said) return;
  if (piece >= said.pieces.length) piece = null;
  const weights = shares(said, piece);
  const names = { ...page.parts, beginning: page.looked.beginning };
  const told = byPart(said, weights).filter(([, share]) => share >= 0.005)
    .map(([name, share]) => `${names[name]} ${Math.round(100 * share)} %`).join(", ");
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

// Every answer so far, by its setting: decoding is greedy, so nothing is asked twice.
const answers = new Map();

async function load() {
  const bar = part("progress");
  bar.hidden = false;
  try {
    aloud("Loading the model");
    await send("load", {}, ({ done, of }) => {
      bar.value = done / of;
      doing(`Loading the model: ${Math.round((100 * done) / of)} %`);
    });
    loaded = true;
  } finally {
    bar.hidden = true;
  }
}

// What is going on, for the eye, which may look away; and what a screen reader says of it.
function doing(text) {
  part("doing").textContent = text;
}

function aloud(text) {
  part("aloud").textContent = text;
}

const whereabouts = ({ depth, length }) => fill(page.where, { depth, length: counted(length) });

async function answer(wanted) {
  const key = JSON.stringify(wanted);
  if (!answers.has(key)) {
    const where = whereabouts(wanted);
    const said = await send("ask", { setting: wanted }, ({ done, of }) =>
      doing(`Asking ${page.model} ${where}: ${counted(done)} of ${counted(of)} tokens read`));
    if (said === null) return null;
    const verdict = page.verdicts[said.verdict] + page.verdicts[said.ending];
    const right = said.verdict === "right";
    answers.set(key, { ...said, setting: wanted, right, verdict, where });
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
    doing("");
    aloud("");
    draw();
  }
}

function ask() {
  const wanted = setting();
  return during(async () => {
    asking = wanted;
    draw();
    aloud(`Asking ${page.model} ${whereabouts(wanted)}`);
    const said = await answer(wanted);
    if (said) showAnswer(said);
  }).finally(() => {
    asking = null;
    draw();
  });
}

// All depths at some lengths, the short ones first; a length that is too short is left out.
function series(lengths) {
  const first = setting();
  return during(async () => {
    const begin = performance.now();
    const said = [];
    aloud(`Asking ${page.model}`);
    for (const length of lengths) {
      for (const depth of page.rows) {
        if (halted) break;
        asking = { ...first, depth, length };
        draw();
        try {
          const one = await answer(asking);
          if (one) said.push(one);
        } catch (error) {
          if (!error.mistake || lengths.length === 1) throw error;
          break;
        }
      }
    }
    const seconds = ((performance.now() - begin) / 1000).toFixed(1);
    const right = said.filter((one) => one.right).length;
    showSeries(`Found ${right} of ${said.length}`,
               `${lengths.map(counted).join(", ")} tokens, ${page.model}, ${seconds} s`,
               right === said.length);
  }).finally(() => {
    asking = null;
    draw();
  });
}

function showAnswer({ setting, right, verdict, ending, where, seconds, text, read, kept, prompt }) {
  const before = kept ? `, ${counted(kept)} of them kept from the prompt before` : "";
  const mark = !right ? "bad" : ending === "repeats" ? "fair" : "good";
  part("answer").className = `say ${mark}`;
  part("answer").replaceChildren(
    element("div", [element("b", verdict), ` (${where}, ${page.model}, ${seconds.toFixed(1)} s)`]),
    element("div", text.trim() ? element("span", `“${text.trim()}”`, { lang: setting.language })
                               : element("i", page.silent), { class: "said" }),
    element("div", `${page.wanted} ${prompt.value}`),
    element("div", `${counted(read)} tokens read${before}.`, { class: "small" }));
  piece = null;
  showLooked();
}

function showSeries(verdict, about, right) {
  part("answer").className = `say ${right ? "good" : "bad"}`;
  part("answer").replaceChildren(element("div", [element("b", `${verdict}.`), ` (${about})`]));
}

// Go to a cell of the heatmap: to its last answer, or to a question that nobody asked yet.
function go(length, column, last) {
  if (busy) return;
  control("length").value = length;
  control("depth").value = last ? last.setting.depth : page.rows[column];
  if (last) index = last.setting.index;
  keep();
  refresh().then(() => (last ? showAnswer(last) : ask()));
}

// --- The heatmap ------------------------------------------------------------------------------

let asking = null;

function draw() {
  const now = setting();
  const same = [...answers.values()].filter((one) => kind(one.setting) === kind(now));
  const current = asking && kind(asking) === kind(now) ? asking : null;
  const lengths = new Set(same.map((one) => one.setting.length));
  if (current) lengths.add(current.length);
  const rows = [...lengths].sort((a, b) => a - b).map((length) => {
    const cells = page.rows.map((_, column) => {
      const here = same.filter((one) =>
        one.setting.length === length && page.bins[one.setting.depth] === column);
      const hits = here.filter((one) => one.right).length;
      const cell = element("td");
      const button = element("button", [], { type: "button" });
      button.addEventListener("click", () => go(length, column, here.at(-1)));
      cell.append(button);
      const where = whereabouts({ depth: page.rows[column], length });
      if (here.length) {
        const [fill, ink] = page.shades[Math.round(((page.shades.length - 1) * hits) / here.length)];
        button.style.background = fill;
        button.style.color = ink;
        const sign = here.length > 1 ? `${hits}/${here.length}` : hits ? "✓" : "✗";
        button.append(element("span", sign, { "aria-hidden": "true" }),
                      unseen(`${hits} of ${here.length}`));
        button.setAttribute("aria-label", `${hits} of ${here.length} ${where}`);
      } else if (current?.length === length && page.bins[current.depth] === column) {
        button.append("…");
      } else {
        button.append(unseen("not asked"));
        button.setAttribute("aria-label", `not asked ${where}`);
      }
      return cell;
    });
    return element("tr", [element("th", counted(length), { scope: "row" }), ...cells]);
  });
  const all = () => [...part("cells").querySelectorAll("button")];
  const focused = all().indexOf(document.activeElement);
  part("cells").replaceChildren(...rows);
  all()[focused]?.focus();
  part("found").hidden = !rows.length;

  buttons.link.setAttribute("aria-disabled", "false");
  for (const name of ["ask", "depths", "lengths", "another"]) {
    // Not disabled: a button that loses the focus loses whoever works by keyboard.
    const off = busy || (name !== "another" && !prompt)
      || (!loaded && (name === "depths" || name === "lengths"));
    buttons[name].setAttribute("aria-disabled", String(off));
  }
  buttons.stop.setAttribute("aria-disabled", String(!busy || !loaded));
  if (loaded) buttons.ask.textContent = page.labels.ask;
}

// --- Beginning --------------------------------------------------------------------------------

function on(name, action) {
  buttons[name].addEventListener("click", () => {
    if (buttons[name].getAttribute("aria-disabled") !== "true") action();
  });
}

on("ask", ask);
on("depths", () => series([setting().length]));
on("lengths", () => series(page.lengths.columns));
on("another", () => {
  index += 1;
  keep();
  refresh();
});
on("link", async () => {
  keep();
  try {
    await navigator.clipboard.writeText(location.href);
    aloud(page.copied);
    doing(page.copied);
  } catch {
    // Where a browser lets no page write to the clipboard, the address line has the link.
    alarm(page.uncopied);
  }
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
  page = await start();
  control("text").maxLength = page.lengths.text + 1;
  beginning = setting();
  follow();
  part("starting").remove();
  part("app").hidden = false;
  await refresh();
} catch (error) {
  cannot(error.message);
}
