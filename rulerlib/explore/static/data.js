// What the page knows: the cells as rows, what is chosen of them, and the files behind them.

/** The view, as the address has it; a value that is not set is "". */
export const view = {
  /** Return the view that the address names. */
  read() {
    return new URLSearchParams(location.hash.slice(1));
  },
  /** Return the address of the view with some values changed; "" and null unset one. */
  address(changes) {
    const values = this.read();
    for (const [name, value] of Object.entries(changes)) {
      if (value === "" || value === null) values.delete(name);
      else values.set(name, value);
    }
    return `#${values}`;
  },
  /** Go to a view; the browser's back button leads back, or past it where it takes another's place. */
  go(changes, inPlace = false) {
    const address = this.address(changes);
    if (address === (location.hash || "#")) return;
    if (inPlace) location.replace(address);
    else location.hash = address;
  },
};

const fetched = new Map();

/** Return what a file of this folder holds; each is asked for once. */
export function load(path) {
  if (!fetched.has(path)) {
    // Beside this script, which another page may show.
    const asked = fetch(new URL(path, import.meta.url)).then((answer) => {
      if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
      return path.endsWith(".json") ? answer.json() : answer.text();
    });
    asked.catch(() => fetched.delete(path));
    fetched.set(path, asked);
  }
  return fetched.get(path);
}

/** Return the columns of cells.json as rows, with names in place of their numbers. */
export function rowsOf({ names, measures, columns, complete }) {
  const whole = new Set(complete.map((each) => each.join("\n")));
  return columns.n.map((n, number) => {
    const row = { number, n, length: columns.length[number], measure: measures[columns.measure[number]] };
    for (const name of ["model", "language", "task"]) row[name] = names[name][columns[name][number]];
    for (const name of ["mean", "low", "high"]) row[name] = columns[name][number];
    if (columns.cut_off) row.cut_off = columns.cut_off[number];
    row.complete = whole.has(`${row.model}\n${row.language}`);
    return row;
  });
}

/** Return the rows with the means of another measure, for the cells that have it. */
export function withMeasure(rows, { measure, cell, mean, low, high }) {
  return cell.map((number, at) => (
    { ...rows[number], measure, mean: mean[at], low: low[at], high: high[at] }
  ));
}

const NAMES = ["model", "language", "task", "length"];

/** What the choice of a study is called that is all of them, and no study. */
export const ALL = "*";

/** Return the rows that the view chooses; those of studies only where it says so. */
export function chosen(rows, values) {
  const wanted = NAMES.filter((name) => values.get(name));
  const study = values.get("study") ?? "";
  return rows.filter((row) => (
    wanted.every((name) => String(row[name] ?? values.get(name)) === values.get(name))
    && (!values.get("complete") || row.complete !== false)
    && (study === ALL || studyOf(row) === study || values.get("task"))
  ));
}

/** Return the name of a row's study, which precedes that of the task; "" for none. */
export const studyOf = ({ task }) => (task.includes(": ") ? task.slice(0, task.indexOf(": ")) : "");

/**
 * Return the comparison of two names as the folder has it, and whether it is the other way round.
 */
export function pairOf(pairs, one, other) {
  const number = pairs.findIndex(({ first, second }) => (
    (first === one && second === other) || (first === other && second === one)
  ));
  return number < 0 ? null : { number, turned: pairs[number].first !== one };
}

/** Return a comparison the other way round: second minus first. */
export function turned(pair) {
  const rows = pair.rows.map((row) => ({
    ...row, first: row.second, second: row.first,
    difference: -row.difference, low: -row.high, high: -row.low,
  }));
  return { ...pair, first: pair.second, second: pair.first, rows };
}

/** Copy the address of this view, and say on the button that it was done. */
export async function copyLink(button) {
  const was = button.textContent;
  // A page without https may not use the clipboard.
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copy it from the address bar";
  }
  setTimeout(() => { button.textContent = was; }, 3000);
}

/** Let the reader keep rows as a file. */
export function save(rows, names, file) {
  const address = URL.createObjectURL(new Blob([csv(rows, names)], { type: "text/csv" }));
  element("a", { href: address, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Show the way back to the page that leads here, if there is one. */
export function homeward(address) {
  const link = document.getElementById("home");
  if (address) link.setAttribute("href", address);
  link.hidden = !address;
}

const collator = new Intl.Collator("en", { numeric: true });

/** Return rows sorted by a column, "-" before its name for falling; missing values come last, equal ones keep their order. */
export function sorted(rows, by) {
  if (!by) return rows;
  const name = by.replace(/^-/, "");
  const sign = by.startsWith("-") ? -1 : 1;
  const missing = (row) => Number(row[name] === undefined || row[name] === null);
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a ?? "", b ?? ""));
  return [...rows].sort((a, b) => missing(a) - missing(b) || sign * compare(a[name], b[name]));
}

/** Return rows as CSV. A text that a spreadsheet would take for a formula gets an apostrophe. */
export function csv(rows, names) {
  const field = (value) => {
    let text = String(value ?? "");
    if (typeof value === "string" && /^[=+@\t\r-]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [names, ...rows.map((row) => names.map((name) => row[name]))]
    .map((line) => line.map(field).join(",")).join("\r\n") + "\r\n";
}

/** Return a name with what a run changed as it is said: `vt+num_hops=8` is "vt, num hops 8". */
export const worded = (task) => task.replaceAll("+", ", ").replace(/(?<=, ).*/, (knobs) => knobs.replace(/[_=]/g, " "));

const languages = new Intl.DisplayNames("en", { type: "language" });

/** Return the English name of a language; of a code that is none of a language, the code. */
export function named(code) {
  return /^[a-z]{2,3}$/.test(code) ? languages.of(code) : code;
}

/** Return a length in tokens as it is written: 4096 is 4K. */
export function thousands(length) {
  if (length % 1024) return String(length);
  return length % 1024 ** 2 ? `${length / 1024}K` : `${length / 1024 ** 2}M`;
}

/** Return a number with one decimal; of two that are as near the even one, as Python has it. */
export const decimal = (value) =>
  (Math.abs(value) % 1 === 0.25 ? value - 0.05 * Math.sign(value) : value).toFixed(1);

/** Return a share in percent, without a figure that n does not give. */
export const percent = (share) => (share === 0 || share === 1 ? String(100 * share) : decimal(100 * share));

/** Return a new element. Texts are texts: nothing here ever becomes markup. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
