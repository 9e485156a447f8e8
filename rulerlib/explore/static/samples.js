// The samples of a cell: a list that marks right and wrong ones, and one of them in full.

import { element, load, percent, view, worded } from "./data.js";

const MOST = 300;
const dialog = document.getElementById("cell");
const at = (name) => document.getElementById(name);

// The open cell: its row of the table, its samples, and how many samples a file has.
let open = null;

const nameOf = ([index, repeat]) => (repeat ? `${index}.${repeat}` : String(index));
const wrong = (sample) => sample[2] < 1;

/** Open the cell of the view, or close the dialog. */
export async function show(values, rows) {
  const key = values.get("cell");
  if (!key) {
    open = null;
    if (dialog.open) dialog.close();
    return;
  }
  const row = rows.find((each) => [each.model, each.language, each.length, each.task].join("|") === key);
  if (!row) throw new Error(`there is no cell ${key}`);
  const { settings, samples, chunk } = await load(`answers/${row.number}/cell.json`);
  if (view.read().get("cell") !== key) return;
  const fresh = open?.row.number !== row.number;
  const listed = await matching(samples, row.number, chunk, values);
  if (view.read().toString() !== values.toString()) return;
  open = { row, samples, listed };
  if (fresh) {
    at("cell-title").textContent = `${worded(row.task)}, ${row.length.toLocaleString("en")} tokens`;
    at("cell-said").textContent = `${row.model}, ${row.language}: ${row.measure} ${percent(row.mean)}%`
      + ` (${percent(row.low)} to ${percent(row.high)}), n = ${row.n}`;
    at("settings").replaceChildren(...pairs(settings));
  }
  at("wrong").checked = Boolean(values.get("wrong"));
  if (document.activeElement !== at("text")) at("text").value = values.get("text") ?? "";
  if (!dialog.open) dialog.showModal();
  const name = values.get("sample") ?? nameOf(listed[0] ?? samples[0]);
  const place = samples.findIndex((sample) => nameOf(sample) === name);
  if (place < 0) throw new Error(`there is no sample ${name}`);
  open.place = place;
  list(listed, samples[place]);
  const records = await load(`answers/${row.number}/${Math.floor(place / chunk)}.json`);
  if (open?.row !== row || open.place !== place) return;
  detail(records[place % chunk], row);
}

/** Return the samples that the view selects: wrong ones, or those with a text in answer, reference or mistake. */
async function matching(samples, number, chunk, values) {
  const text = values.get("text")?.toLowerCase();
  const files = text ? Array.from({ length: Math.ceil(samples.length / chunk) }, (_, file) => load(`answers/${number}/${file}.json`)) : [];
  const records = (await Promise.all(files)).flat();
  const has = ({ answer, gold, error }) => [answer, error, ...gold].join("\n").toLowerCase().includes(text);
  return samples.filter((sample, place) => (!values.get("wrong") || wrong(sample)) && (!text || has(records[place])));
}

/** List samples around the one that is shown. */
function list(listed, current) {
  const place = Math.max(0, listed.indexOf(current));
  const from = Math.max(0, Math.min(place - MOST / 2, listed.length - MOST));
  const lines = listed.slice(from, from + MOST).map((sample) => {
    const [, , score, error] = sample;
    const mark = score >= 1 ? "✓" : "✗";
    const said = score >= 1 ? "right" : error || "wrong";
    return element("li", {}, element("a", {
      href: view.address({ sample: nameOf(sample) }), class: score >= 1 ? "right" : "wrong",
      "aria-current": sample === current ? "true" : null,
    }, element("span", { "aria-hidden": "true" }, `${mark} `), `${nameOf(sample)}: ${said}`));
  });
  if (from > 0) lines.unshift(element("li", {}, `${from} before`));
  const rest = listed.length - from - MOST;
  if (rest > 0) lines.push(element("li", {}, `${rest} after`));
  if (!listed.length) lines.push(element("li", {}, "No answer fits."));
  const focused = at("samples").contains(document.activeElement);
  at("samples").replaceChildren(...lines);
  const marked = at("samples").querySelector("[aria-current]");
  if (marked) at("samples").scrollTop = marked.offsetTop - at("samples").offsetTop - 60;
  if (focused) marked?.focus();
}

/** Return pieces of a prompt with its parts marked; places count characters, not UTF-16's units. */
function marked(pieces, parts, size) {
  const made = [];
  let shown = 0;
  for (const [start, text] of pieces) {
    if (start > shown) made.push(gap(start - shown));
    const letters = Array.from(text);
    const end = start + letters.length;
    made.push(...within(parts.filter((part) => part[1] < end && part[2] > start), start, end, (a, b) => letters.slice(a - start, b - start).join("")));
    shown = end;
  }
  if (size > shown) made.push(gap(size - shown));
  return made;
}

const gap = (count) => element("span", { class: "gap" }, `… ${count.toLocaleString("en")} characters …`);

/** Return characters [start, end) with marks for the parts and the parts within them. */
function within(parts, start, end, textOf) {
  const made = [];
  let done = start;
  parts.forEach((part, number) => {
    const [role, a, b] = [part[0], Math.max(part[1], done), Math.min(part[2], end)];
    if (a >= b) return;
    if (a > done) made.push(textOf(done, a));
    const inner = parts.slice(number + 1).filter((each) => each[1] >= part[1] && each[2] <= part[2] && each[1] < b);
    const tag = role === "question" ? "span" : "mark";
    made.push(element(tag, { class: role, title: role }, ...within(inner, a, b, textOf)));
    done = b;
  });
  if (done < end) made.push(textOf(done, end));
  return made;
}

function block(title, lang, ...content) {
  return [element("h4", {}, title), element("div", { class: "text", lang, tabindex: "0", role: "group", "aria-label": title }, ...content)];
}

const pairs = (values) => Object.entries(values).flatMap(([name, value]) => [
  element("dt", {}, name), element("dd", {}, String(value)),
]);

/** Show one sample in full. */
function detail(record, row) {
  const { language } = row;
  const right = record.score >= 1;
  const prompt = record.pieces.length
    ? block("Prompt", language, ...marked(record.pieces, record.parts, record.characters))
    : [element("h4", {}, "Prompt"), element("p", {}, "The command below recreates it.")];
  at("sample").replaceChildren(
    element("h3", {}, `Sample ${nameOf([record.index, record.repeat])}: `,
      element("span", { class: right ? "right" : "wrong" }, right ? "✓ right" : `✗ ${record.error || "wrong"}`)),
    ...block("Answer", language, record.prefix ? element("span", { class: "gap" }, `${record.prefix} `) : "", record.answer || "(nothing)"),
    ...block("Reference", language, record.gold.join("\n")),
    ...(record.thinking ? block("Thinking", language, record.thinking) : []),
    element("h4", {}, "Scores"), element("dl", {}, ...pairs(record.measures)),
    ...prompt,
    element("h4", {}, "About it"), element("dl", {}, ...pairs(record.known)),
    ...(record.command ? block("Recreate its prompt", "en", element("code", {}, record.command)) : []),
  );
}

/** Go to the next wrong sample, or with -1 to the one before. */
function step(by) {
  if (!open) return;
  const { samples, listed, place } = open;
  for (let other = place + by; other >= 0 && other < samples.length; other += by) {
    if (wrong(samples[other]) && listed.includes(samples[other])) {
      view.go({ sample: nameOf(samples[other]) });
      return;
    }
  }
  at("cell-said").setAttribute("role", "status");
  at("cell-said").textContent = by > 0 ? "No wrong answer after this one." : "No wrong answer before this one.";
}

at("close").addEventListener("click", () => dialog.close());
at("previous").addEventListener("click", () => step(-1));
at("next").addEventListener("click", () => step(1));
at("wrong").addEventListener("change", (event) => view.go({ wrong: event.target.checked ? "1" : "", sample: "" }));
at("text").addEventListener("input", (event) => view.go({ text: event.target.value, sample: "" }, true));
// Esc closes a dialog by itself; the address follows.
dialog.addEventListener("close", () => open && view.go({ cell: "", sample: "", wrong: "", text: "" }));
document.addEventListener("keydown", (event) => {
  if (!dialog.open || event.target === at("text") || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "n") step(1);
  if (event.key === "p") step(-1);
});
