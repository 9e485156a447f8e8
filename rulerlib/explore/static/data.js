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
  /** Go to a view; the browser's back button leads back. */
  go(changes) {
    const address = this.address(changes);
    if (address !== (location.hash || "#")) location.hash = address;
  },
};

const fetched = new Map();

/** Return what a file of this folder holds; each is asked for once. */
export function load(path) {
  if (!fetched.has(path)) {
    const asked = fetch(path).then((answer) => {
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

/** Return the rows that the view chooses. */
export function chosen(rows, values) {
  const wanted = NAMES.filter((name) => values.get(name));
  return rows.filter((row) => (
    wanted.every((name) => String(row[name] ?? values.get(name)) === values.get(name))
    && (!values.get("complete") || row.complete !== false)
  ));
}

const collator = new Intl.Collator("en", { numeric: true });

/** Return rows sorted by a column, "-" before its name for falling; equal ones keep their order. */
export function sorted(rows, by) {
  if (!by) return rows;
  const name = by.replace(/^-/, "");
  const sign = by.startsWith("-") ? -1 : 1;
  const compare = (a, b) => (typeof a === "number" && typeof b === "number"
    ? a - b : collator.compare(a ?? "", b ?? ""));
  return [...rows].sort((a, b) => sign * compare(a[name], b[name]));
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

/** Return a length in tokens as it is written: 4096 is 4K. */
export const thousands = (length) => (length % 1024 ? String(length) : `${length / 1024}K`);

/** Return a share in percent, without a figure that n does not give. */
export const percent = (share) => (100 * share).toFixed(share === 0 || share === 1 ? 0 : 1);

/** Return a new element. Texts are texts: nothing here ever becomes markup. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
