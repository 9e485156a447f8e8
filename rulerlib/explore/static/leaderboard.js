// The leaderboard: a row for each model, with its claimed and its effective length. OneRULER's published
// averages have a table of their own, because they are of other tasks.

import { claims } from "./claims.js";
import { copyLink, decimal, element, homeward, load, named, save, thousands, view } from "./data.js";
import { grid } from "./grid.js";

const at = (name) => document.getElementById(name);
const form = at("filters");
const control = (name) => form.elements.namedItem(name);
const TASKS = 13;
const CHOICES = ["kind", "language", "claimed", "reach"];
const CHECKS = ["whole", "details"];
const FIRST = "RULER";
const OTHER = "OneRULER";
let all;
let lengths;
let filled;
let shownRows = [];

const average = (value) => (value === undefined ? "–" : decimal(value));
const differ = (rows, name) => new Set(rows.map((row) => row[name])).size > 1;
const tableOf = (values) => (values.get("table") === OTHER ? OTHER : FIRST);
const wholeOf = (table) => (table === FIRST ? "" : `table=${table}`);

/** Return the languages of rows in order: English and Danish first, the others by name. */
function languagesOf(rows) {
  const codes = [...new Set(rows.map((row) => row.language))].sort((a, b) => named(a).localeCompare(named(b)));
  const first = ["en", "da"].filter((code) => codes.includes(code));
  return [...new Set([...first, ...codes])];
}

/** Return what distinguishes a row from the others: its kind, and the number of its tasks. */
function apart(row, rows) {
  return [...(differ(rows, "kind") ? [row.kind] : []), ...(row.tasks < TASKS ? [`${row.tasks} of ${TASKS} tasks`] : [])].join(", ");
}

/** Return a name with a link to its source, and the notes on where the source differs. */
function modelOf(row, rows) {
  const cell = element("span", {}, row.source ? element("a", { href: row.source, rel: "noreferrer" }, row.model) : row.model);
  const about = apart(row, rows);
  if (about) cell.append(" ", element("small", {}, about));
  if (row.notes) {
    cell.append(element("details", {}, element("summary", {}, "the source differs"),
      element("ul", {}, ...row.notes.map((note) => element("li", {}, note)))));
  }
  return cell;
}

function effectiveOf(row) {
  return (row.effective || "–") + (row.low && row.effective ? ` (${row.low} to ${row.high})` : "");
}

/** Return the columns that are not empty. */
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
    ...(differ(rows, "language") ? [{ name: "spoken", title: "language", shown: (row) => row.spoken }] : []),
    { name: "claimed", title: "claimed", number, shown: (row) => (row.claimed ? thousands(row.claimed) : "–") },
    { name: "reach", title: "effective", number, shown: effectiveOf },
    ...lengths.map((length) => (
      { name: `at ${length}`, title: thousands(length), number, shown: (row) => (row.table === OTHER ? String : average)(row.averages[length]) }
    )),
    { name: "loss", title: "loss", number, shown: (row) => String(row.loss) },
    { name: "avg", title: "Avg.", number, shown: (row) => average(row.avg) },
    ...(details ? more : []),
  ].filter(({ name }) => rows.some((row) => row[name] !== undefined && row[name] !== null));
}

function chosen(values) {
  const has = (values.get("model") ?? "").toLowerCase();
  const least = (name) => Number(values.get(name) ?? 0);
  return all.filter((row) => (
    row.table === tableOf(values)
    && row.model.toLowerCase().includes(has)
    && ["kind", "language"].every((name) => !values.get(name) || row[name] === values.get(name))
    && ["claimed", "reach"].every((name) => (row[name] ?? 0) >= least(name))
    && (!values.get("whole") || row.tasks === TASKS)
  ));
}

/** Fill the choices from the rows of a table; a choice with one value is hidden. */
function fill(table) {
  const rows = all.filter((row) => row.table === table);
  const rising = (name) => [...new Set(rows.map((row) => row[name]).filter(Boolean))].sort((a, b) => a - b);
  const offers = { kind: [...new Set(rows.map((row) => row.kind))], language: languagesOf(rows), claimed: rising("claimed"), reach: rising("reach") };
  const texts = { kind: String, language: named, claimed: thousands, reach: thousands };
  for (const name of CHOICES) {
    control(name).replaceChildren(element("option", { value: "" }, texts[name] === thousands ? "any" : "all"),
      ...offers[name].map((value) => element("option", { value }, texts[name](value))));
    control(name).parentElement.hidden = offers[name].length < 2;
  }
  control("table").value = table;
  control("table").parentElement.hidden = !differ(all, "table");
  control("whole").parentElement.hidden = !rows.some((row) => row.tasks < TASKS);
  control("details").parentElement.hidden = table === OTHER;
  at("charts").hidden = table === OTHER;
  at("said").textContent = table === OTHER ? "Accuracy in finding needles in 26 languages, as published by OneRULER."
    : "The context length that each model claims, and the length that it can use, by RULER's tasks.";
  filled = table;
}

function render() {
  const values = view.read();
  const table = tableOf(values);
  if (table !== filled) fill(table);
  if (control("model") !== document.activeElement) control("model").value = values.get("model") ?? "";
  for (const name of CHOICES) control(name).value = values.get(name) ?? "";
  for (const name of CHECKS) control(name).checked = Boolean(values.get(name));
  const rows = chosen(values);
  shownRows = grid(rows, columns(rows, values.get("details")), values.get("sort") ?? (table === OTHER ? `-at ${lengths.at(-1)}` : "-reach"));
  const bare = rows.some((row) => row.kind === "published") ? " Published rows have no interval, because their sources give no n." : "";
  const what = table === OTHER ? "accuracy in needle tasks, in %; the loss is from the shortest to the longest length, in percentage points."
    : "averages over RULER's 13 tasks, in %. The effective length is the longest whose average exceeds 85.6%; ≥ means that no longer length was measured.";
  at("table-said").textContent = `${rows.length} of ${all.filter((row) => row.table === table).length} rows; ${what}${bare}`;
  if (table === FIRST) claims(shownRows);
}

function keep() {
  const facts = ["table", "model", "kind", "language", "claimed", "effective", "low", "high", "strict", "tasks"];
  const averages = [...lengths.map((length) => `at ${length}`), "avg", "inc", "dec"];
  save(shownRows, [...facts, ...averages, "loss", "parameters", "trained", "architecture"], "leaderboard.csv");
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", ({ target }) => {
  const value = target.type === "checkbox" ? (target.checked ? "1" : "") : target.value;
  // A choice in one table may fit no row of the other.
  if (target.name === "table") location.hash = wholeOf(value);
  else view.go({ [target.name]: value }, target.type === "search");
});
at("csv").addEventListener("click", keep);
at("reset").addEventListener("click", () => { location.hash = wholeOf(filled); });
at("link").addEventListener("click", () => copyLink(at("link")));

at("unserved").remove();
load("leaderboard.json").then(({ home, rows }) => {
  lengths = [...new Set(rows.flatMap((row) => Object.keys(row.averages).map(Number)))].sort((a, b) => a - b);
  // A column is sorted by its values; among equal ones the better average is first.
  all = rows.map((row) => ({
    table: FIRST, ...row, spoken: named(row.language), ...Object.fromEntries(lengths.map((length) => [`at ${length}`, row.averages[length]])),
  })).sort((a, b) => (b.avg ?? 0) - (a.avg ?? 0));
  if (at("home")) homeward(home);
  addEventListener("hashchange", render);
  render();
}).catch((error) => { at("said").textContent = `This could not be shown: ${error.message}.`; });
