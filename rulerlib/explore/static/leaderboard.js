// The leaderboard: a row for each model, and what it claims beside what it can use.

import { claims } from "./claims.js";
import { copyLink, decimal, element, homeward, load, save, thousands, view } from "./data.js";
import { grid } from "./grid.js";

const at = (name) => document.getElementById(name);
const form = at("filters");
const control = (name) => form.elements.namedItem(name);
const TASKS = 13;
const CHOICES = ["kind", "language", "claimed", "reach"];
const CHECKS = ["whole", "details"];
let all;
let lengths;
let shownRows = [];

const average = (value) => (value === undefined ? "–" : decimal(value));

/** Return what tells a row from the others that are shown: where it comes from, its language, its tasks. */
function apart(row, rows) {
  const differ = ["kind", "language"].filter((name) => new Set(rows.map((each) => each[name])).size > 1);
  return [...differ.map((name) => row[name]), ...(row.tasks < TASKS ? [`${row.tasks} of ${TASKS} tasks`] : [])].join(", ");
}

/** Return a name with a link to where its facts come from, and what its own row contradicts. */
function modelOf(row, rows) {
  const cell = element("span", {}, row.source ? element("a", { href: row.source, rel: "noreferrer" }, row.model) : row.model);
  const about = apart(row, rows);
  if (about) cell.append(" ", element("small", {}, about));
  if (row.notes) {
    cell.append(element("details", {}, element("summary", {}, "printed otherwise"),
      element("ul", {}, ...row.notes.map((note) => element("li", {}, note)))));
  }
  return cell;
}

function effectiveOf(row) {
  return (row.effective || "–") + (row.low && row.effective ? ` (${row.low} to ${row.high})` : "");
}

/** Return the columns that hold something for some of the rows. */
function columns(rows, details) {
  const number = true;
  const more = [
    { name: "inc", title: "wAvg. (inc)", number, shown: (row) => average(row.inc) },
    { name: "dec", title: "wAvg. (dec)", number, shown: (row) => average(row.dec) },
    { name: "strict", title: "all-match", number, shown: (row) => row.strict ?? "–" },
    { name: "parameters", title: "parameters, 10⁹", number, shown: (row) => String(row.parameters ?? "–") },
    { name: "trained", title: "trained to", number, shown: (row) => (row.trained ? thousands(row.trained) : "–") },
    { name: "architecture", title: "architecture", shown: (row) => row.architecture ?? "–" },
  ];
  return [
    { name: "model", title: "model", shown: (row) => modelOf(row, rows) },
    { name: "claimed", title: "claimed", number, shown: (row) => (row.claimed ? thousands(row.claimed) : "–") },
    { name: "reach", title: "effective", number, shown: effectiveOf },
    ...lengths.map((length) => (
      { name: `at ${length}`, title: thousands(length), number, shown: (row) => average(row.averages[length]) }
    )),
    { name: "avg", title: "Avg.", number, shown: (row) => average(row.avg) },
    ...(details ? more : []),
  ].filter(({ name }) => rows.some((row) => row[name] !== undefined && row[name] !== null));
}

function chosen(values) {
  const has = (values.get("model") ?? "").toLowerCase();
  const least = (name) => Number(values.get(name) ?? 0);
  return all.filter((row) => (
    row.model.toLowerCase().includes(has)
    && ["kind", "language"].every((name) => !values.get(name) || row[name] === values.get(name))
    && ["claimed", "reach"].every((name) => (row[name] ?? 0) >= least(name))
    && (!values.get("whole") || row.tasks === TASKS)
  ));
}

function fill() {
  const rising = (name) => [...new Set(all.map((row) => row[name]).filter(Boolean))].sort((a, b) => a - b);
  for (const name of CHOICES) {
    const numbers = !["kind", "language"].includes(name);
    const values = numbers ? rising(name) : [...new Set(all.map((row) => row[name]))];
    control(name).replaceChildren(element("option", { value: "" }, numbers ? "any" : "all"),
      ...values.map((value) => element("option", { value }, numbers ? thousands(value) : value)));
    control(name).parentElement.hidden = values.length < 2;
  }
  control("whole").parentElement.hidden = all.every((row) => row.tasks === TASKS);
}

function render() {
  const values = view.read();
  if (control("model") !== document.activeElement) control("model").value = values.get("model") ?? "";
  for (const name of CHOICES) control(name).value = values.get(name) ?? "";
  for (const name of CHECKS) control(name).checked = Boolean(values.get(name));
  const rows = chosen(values);
  shownRows = grid(rows, columns(rows, values.get("details")), values.get("sort") ?? "-reach");
  const bare = rows.some((row) => row.kind === "published") ? " Published rows have no interval: their publishers give no n." : "";
  at("table-said").textContent = `${rows.length} of ${all.length} rows; averages over RULER's 13 tasks, in %. The effective length is the`
    + ` longest whose average exceeds 85.6 %; ≥ says that no longer one was measured.${bare}`;
  claims(shownRows);
}

function keep() {
  const facts = ["model", "kind", "language", "claimed", "effective", "low", "high", "strict", "tasks"];
  const averages = [...lengths.map((length) => `at ${length}`), "avg", "inc", "dec"];
  save(shownRows, [...facts, ...averages, "parameters", "trained", "architecture"], "leaderboard.csv");
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", ({ target }) => {
  const value = target.type === "checkbox" ? (target.checked ? "1" : "") : target.value;
  view.go({ [target.name]: value }, target.type === "search");
});
at("csv").addEventListener("click", keep);
at("reset").addEventListener("click", () => { location.hash = ""; });
at("link").addEventListener("click", () => copyLink(at("link")));

at("unserved").remove();
load("leaderboard.json").then(({ home, rows }) => {
  lengths = [...new Set(rows.flatMap((row) => Object.keys(row.averages).map(Number)))].sort((a, b) => a - b);
  // Columns are sorted by what a row has under their names; of equal ones the better average is first.
  all = rows.map((row) => ({
    ...row, ...Object.fromEntries(lengths.map((length) => [`at ${length}`, row.averages[length]])),
  })).sort((a, b) => (b.avg ?? 0) - (a.avg ?? 0));
  if (at("home")) homeward(home);
  at("said").textContent = "What models claim, and how much of it they can use, by RULER's tasks.";
  fill();
  addEventListener("hashchange", render);
  render();
}).catch((error) => { at("said").textContent = `This could not be shown: ${error.message}.`; });
