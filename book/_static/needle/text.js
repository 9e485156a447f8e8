// What is done to texts: rulerlib's rules with its data. `rules` is a part of page.json, in which
// book/browser.py writes its regular expressions, letters and numbers.

export class Texts {
  constructor(rules) {
    const pattern = (source) => new RegExp(source, "gu");
    const { space } = rules;
    const [spaces, outer, leading] = [`${space}+`, `^${space}+|${space}+$`, `^${space}+`].map(pattern);
    const [ends, braces] = [rules.ends, rules.braces].map(pattern);
    const pieces = pattern(`[^ ]+(?: [^ ]+){0,${rules.longest - 1}}`);

    this.wrong = new RegExp(rules.wrong, "u");
    this.trimmed = (text) => text.replace(outer, "");
    this.trimmedStart = (text) => text.replace(leading, "");
    this.oneLine = (text) => this.trimmed(text.replace(spaces, " "));

    // What stands in braces, each once.
    this.marks = (text) => [...new Set([...text.matchAll(braces)].map(([, mark]) => mark))];

    // rulerlib.texts.sentences
    this.sentences = (text) => this.oneLine(text)
      .replace(ends, (end) => `${this.trimmed(end)}\n`).split("\n").filter(Boolean)
      .flatMap((sentence) => sentence.match(pieces));

    // str.casefold and rulerlib.metrics.normalize
    this.folded = (text) =>
      Array.from(text, (letter) => rules.folds[letter] ?? letter.toLowerCase()).join("");
    this.normal = (text) => this.folded(text.normalize("NFKC")).normalize("NFKC");
  }

  // An answer as it is judged: rulerlib.metrics.matches.folded
  judged(said) {
    return this.normal(this.trimmed(this.trimmed(said).replace(/[\x00-\x1f]/g, "\n")));
  }

  // How an answer ends.
  ending(said, values, finished) {
    if (finished) return "finished";
    const text = this.judged(said);
    const again = values.some((value) => text.split(this.normal(value)).length > 2);
    return again ? "repeats" : "cut off";
  }

  // How many of some values stand in an answer.
  found(said, values) {
    const text = this.judged(said);
    return values.filter((value) => text.includes(this.normal(value))).length;
  }

  // How right an answer is.
  verdict(said, outputs, others) {
    const right = this.found(said, outputs);
    if (right === outputs.length) return right === 1 ? "right" : "all";
    return right ? "part" : this.found(said, others) ? "distractor" : "wrong";
  }
}

// A template with its names filled in; a name that nobody gave stays as it is.
export const fill = (template, names) => template.replace(/\{(\w+)\}/g,
  (whole, name) => ({}).hasOwnProperty.call(names, name) ? names[name] : whole);
