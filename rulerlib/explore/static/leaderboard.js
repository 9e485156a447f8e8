// The leaderboard: a row for each model, and what it claims beside what it can use.

import { claims } from "./claims.js";
import { copyLink, decimal, element, homeward, load, save, thousands, view } from "./data.js";
import { grid } from "./grid.js";

const at = (name) => document.getElementById(name);
const form = at("filters");
const control = (name) => form.elements.namedItem(name);
const TASKS = 13;
const FILTERS = ["model", "kind", "language", "claimed", "reach"];
let all;
let lengths;
let shownRows = [];

const average = (value) => (value === undefined ? "–" : decimal(value));

/** Return a name with a link to where its facts come from, and what its own row contradicts. */
function modelOf(row) {
  const parts = [row.source ? element("a", { href: row.source, rel: "noreferrer" }, row.model) : row.model];
  if (row.notes) {
    parts.push(element("details", {}, element("summary", {}, "printed otherwise"),
      element("ul", {}, ...row.notes.map((note) => element("li", {}, note)))));
  }
  const cell = element("span", {});
  cell.append(...parts);
  return cell;
}

function columns() {
  const number = true;
  return [
    { name: "model", title: "model", shown: modelOf },
    { name: "kind", title: "from", shown: (row) => row.kind },
    { name: "language", title: "language", shown: (row) => row.language },
    { name: "claimed", title: "claimed", number, shown: (row) => (row.claimed ? thousands(row.claimed) : "–") },
    { name: "reach", title: "effective", number, shown: (row) => row.effective },
    { name: "low", title: "95 % interval", number, shown: (row) => (row.low ? `${row.low} to ${row.high}` : "–") },
    { name: "strict", title: "all-match", number, shown: (row) => row.strict ?? "–" },
    { name: "tasks", title: "tasks", number, shown: (row) => String(row.tasks ?? "–") },
    ...lengths.map((length) => (
      { name: `at ${length}`, title: thousands(length), number, shown: (row) => average(row.averages[length]) }
    )),
    { name: "avg", title: "Avg.", number, shown: (row) => average(row.avg) },
    { name: "inc", title: "wAvg. (inc)", number, shown: (row) => average(row.inc) },
    { name: "dec", title: "wAvg. (dec)", number, shown: (row) => average(row.dec) },
    { name: "printed", title: "effective, printed", number, shown: (row) => row.printed ?? "–" },
    { name: "parameters", title: "parameters, 10⁹", number, shown: (row) => String(row.parameters ?? "–") },
    { name: "trained", title: "trained to", number, shown: (row) => (row.trained ? thousands(row.trained) : "–") },
    { name: "architecture", title: "architecture", shown: (row) => row.architecture ?? "–" },
  ];
}

/** Return the columns that hold something for some of the rows. */
function used(rows) {
  return columns().filter(({ name }) => rows.some((row) => row[name] !== undefined));
}

function chosen(values) {
  const has = (values.get("model") ?? "").toLowerCase();
  const least = (name) => Number(values.get(name) ?? 0);
  return all.filter((row) => (
    row.model.toLowerCase().includes(has)
    && ["kind", "language"].every((name) => !values.get(name) || row[name] === values.get(name))
    && (row.claimed ?? 0) >= least("claimed") && row.reach >= least("reach")
    && (!values.get("whole") || row.tasks === TASKS)
  ));
}

function options(name, values, rest) {
  control(name).replaceChildren(element("option", { value: "" }, rest),
    ...values.map(([value, text]) => element("option", { value }, text)));
}

function fill() {
  const rising = (name) => [...new Set(all.map((row) => row[name]).filter(Boolean))].sort((a, b) => a - b);
  for (const name of ["kind", "language"]) {
    options(name, [...new Set(all.map((row) => row[name]))].map((each) => [each, each]), "all");
  }
  for (const name of ["claimed", "reach"]) options(name, rising(name).map((each) => [each, thousands(each)]), "any");
}

function render() {
  const values = view.read();
  for (const name of FILTERS) {
    if (control(name) !== document.activeElement || name !== "model") control(name).value = values.get(name) ?? "";
  }
  control("whole").checked = Boolean(values.get("whole"));
  const rows = chosen(values);
  shownRows = grid(rows, used(rows), values.get("sort") ?? "-reach");
  at("table-said").textContent = `${rows.length} of ${all.length} rows; averages in %. The effective length is the longest`
    + " whose average over the tasks exceeds 85.6 %; ≥ says that no longer one was measured.";
  claims(shownRows);
}

function keep() {
  const names = used(shownRows).flatMap(({ name }) => (name === "low" ? ["low", "high"] : name === "reach" ? ["effective"] : [name]));
  save(shownRows, names, "leaderboard.csv");
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", ({ target }) => {
  const value = target.type === "checkbox" ? (target.checked ? "1" : "") : target.value;
  view.go({ [target.name]: value }, target.type === "search");
});
at("csv").addEventListener("click", keep);
at("reset").addEventListener("click", () => { location.hash = ""; });
at("link").addEventListener("click", () => copyLink(at("link")));
at("chart").addEventListener("click", () => {
  at("charts").focus({ preventScroll: true });
  at("charts").scrollIntoView();
});

at("unserved").remove();
load("leaderboard.json").then(({ home, rows }) => {
  lengths = [...new Set(rows.flatMap((row) => Object.keys(row.averages).map(Number)))].sort((a, b) => a - b);
  // Columns are sorted by what a row has under their names.
  all = rows.map((row) => ({
    ...row, ...Object.fromEntries(lengths.map((length) => [`at ${length}`, row.averages[length]])),
  }));
  homeward(home);
  at("said").textContent = "What models claim, and how much of it they can use, by RULER's tasks.";
  fill();
  addEventListener("hashchange", render);
  render();
}).catch((error) => { at("said").textContent = `This could not be shown: ${error.message}.`; });
