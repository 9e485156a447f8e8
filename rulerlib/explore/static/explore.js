// The page: what the address says is what is shown, and every control changes the address.

import {
  ALL, chosen, copyLink, element, homeward, load, pairOf, rowsOf, save, studyOf, thousands, turned, view, withMeasure, worded,
} from "./data.js";
import { curve, heatmap } from "./charts.js";
import { show as showSample } from "./samples.js";
import { columnsOf, show as showTable } from "./table.js";

const at = (name) => document.getElementById(name);
const form = at("filters");
// By its function, because `elements.length` is their number.
const control = (name) => form.elements.namedItem(name);
let shown;
let rows;
let drawn = null;
// What the table shows, for the file of it.
let current = { rows: [], pair: null };

function options(name, values, all) {
  const list = values.map(([value, text]) => element("option", { value }, text));
  control(name).replaceChildren(element("option", { value: "" }, all), ...list);
}

function fill() {
  for (const name of ["model", "language", "task"]) {
    options(name, shown.names[name].map((each) => [each, worded(each)]), "all");
  }
  const lengths = [...new Set(rows.map((row) => row.length))].sort((a, b) => a - b);
  options("length", lengths.map((length) => [length, thousands(length)]), "all");
  options("measure", shown.measures.map((each) => [each, each]), "each task's own");
  const studies = [...new Set(rows.map(studyOf))].filter(Boolean);
  options("study", [...studies.map((each) => [each, each]), [ALL, "all studies and none"]], "none");
  control("study").parentElement.hidden = !studies.length;
  const compared = shown.pairs.flatMap(({ first, second }) => [first, second]);
  options("first", [...new Set(compared)].map((each) => [each, worded(each)]), "nothing");
  control("first").parentElement.hidden = !compared.length;
  control("complete").parentElement.hidden = !shown.complete.length;
}

/** Offer for the second place of a comparison what the first is compared with. */
function offer(first) {
  const others = shown.pairs.filter((pair) => first && [pair.first, pair.second].includes(first))
    .map((pair) => (pair.first === first ? pair.second : pair.first));
  options("second", others.map((each) => [each, worded(each)]), first ? "choose" : "nothing");
  control("second").parentElement.hidden = !first;
}

/** Return the comparison that the view asks for; null where it asks for none. */
async function comparison(values) {
  const found = pairOf(shown.pairs, values.get("first"), values.get("second"));
  if (!found) return null;
  const pair = await load(`pairs/${found.number}.json`);
  return found.turned ? turned(pair) : pair;
}

/** Show what the address says. */
async function render() {
  const values = view.read();
  offer(values.get("first") ?? "");
  for (const name of ["model", "language", "task", "length", "measure", "study", "first", "second", "by"]) {
    control(name).value = values.get(name) ?? "";
  }
  control("complete").checked = Boolean(values.get("complete"));
  const under = new URLSearchParams(values);
  for (const name of ["cell", "sample", "wrong", "text"]) under.delete(name);
  // The filters do not change under an open cell.
  if (drawn !== under.toString()) await draw(values, under.toString());
  await showSample(values, rows);
}

async function draw(values, now) {
  const number = shown.measures.indexOf(values.get("measure"));
  const all = number < 0 ? rows : withMeasure(rows, await load(`measures/${number}.json`));
  const cells = chosen(all, values);
  const pair = await comparison(values);
  const listed = pair ? chosen(pair.rows, values) : cells;
  if (view.read().toString() !== values.toString()) return;
  drawn = now;
  const ordered = showTable(listed, values, pair);
  current = { rows: ordered, pair };
  at("table-said").textContent = pair ? compared(pair, listed.length)
    : `${cells.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} cells`;
  at("charts").hidden = !cells.length;
  if (cells.length) {
    heatmap(cells, values.get("by") || "task");
    curve(cells, values.get("by") || "task");
  }
}

function compared({ kind, first, second }, count) {
  const how = kind === "model" ? "on the same samples"
    : "on different samples, so the interval combines those of both means";
  return `${first} minus ${second} in ${count} cells, in percentage points, ${how}, by each task's own measure.`;
}

function keep() {
  const { rows: listed, pair } = current;
  const names = columnsOf(listed, pair).flatMap(([name]) => (name === "low" ? ["low", "high"] : [name]));
  save(listed, names, "explorer.csv");
}

const failed = (error) => { at("said").textContent = `This could not be shown: ${error.message}.`; };
const tell = () => {
  const samples = rows.reduce((sum, row) => sum + row.n, 0);
  at("said").textContent = `${samples.toLocaleString("en")} answers in ${rows.length.toLocaleString("en")} cells.`
    + " Select a mean to see its answers.";
};
const update = () => { tell(); render().catch(failed); };

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", ({ target }) => {
  const value = target.type === "checkbox" ? (target.checked ? "1" : "") : target.value;
  // What one is compared with another need not be.
  view.go({ [target.name]: value, ...(target.name === "first" ? { second: "" } : {}) });
});
at("csv").addEventListener("click", keep);
at("reset").addEventListener("click", () => { location.hash = ""; });
at("link").addEventListener("click", () => copyLink(at("link")));

at("unserved").remove();
load("cells.json").then((values) => {
  shown = values;
  rows = rowsOf(shown);
  homeward(shown.home);
  fill();
  addEventListener("hashchange", update);
  update();
}).catch(failed);
