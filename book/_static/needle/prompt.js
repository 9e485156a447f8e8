// Prompts as rulerlib makes them, to the last byte, for one needle that is asked for. Units, what
// they cost, needles, templates and the frame come from Python (book/browser.py); what the reader
// writes is read and counted here. tests/test_browser_model.py holds all of it against rulerlib.

import { fill, Texts } from "./text.js";

// A mistake of the reader's; what it says is for the reader.
export class Mistake extends Error {
  name = "Mistake";
}

// Of rows {text, tokens, part}: a unit of the haystack, a needle, or what stands around them.
const sum = (rows) => rows.reduce((total, { tokens }) => total + tokens, 0);

// What stands before and after the context in a template.
function around(template) {
  const at = template.indexOf("{context}");
  return [template.slice(0, at), template.slice(at + "{context}".length)];
}

// As many units in a row, from `start` on, as `room` tokens hold; after the last comes the first.
function take(units, room, start) {
  const taken = [];
  for (let at = start; units[at].tokens <= room; at = (at + 1) % units.length) {
    taken.push(units[at]);
    room -= units[at].tokens;
  }
  return taken;
}

// Needles between units, each at the seam nearest to its depth in tokens.
function insert(units, needles) {
  const pieces = [];
  let done = 0;
  for (const needle of needles) {
    const wanted = (sum(units) * needle.depth) / 100;
    let [slot, before, last] = [0, 0, 0];
    for (; before < wanted; before += last) last = units[slot++].tokens;
    if (slot > 0 && wanted - (before - last) <= before - wanted) slot--;
    slot = Math.max(slot, done);
    pieces.push(...units.slice(done, slot), needle);
    done = slot;
  }
  return [...pieces, ...units.slice(done)];
}

// Makes the prompts of one language: `page` is page.json, `language` is da.json or en.json, and
// `count` says how many tokens a text has.
export class Prompts {
  constructor(page, language, count) {
    Object.assign(this, { page, language, count, texts: new Texts(page.texts), own: {} });
    this.essays = language.units.map(([text, tokens]) => ({ text, tokens, part: "haystack" }));
  }

  // How many tokens a text adds after another one.
  added(text, after) {
    return this.count(after + text) - this.count(after);
  }

  // A unit or a needle, with the tokens that it adds behind a seam.
  row(part, text, more = {}) {
    return { part, text, tokens: this.added(this.page.seam + text, this.page.anchor), ...more };
  }

  mistake(parameter, value, rule, allowed = this.page.rules[rule]) {
    const shown = value.length > 120 ? `${value.slice(0, 117)}…` : value;
    const label = this.page.labels[parameter];
    return new Mistake(fill(this.page.must, { parameter: label, value: `“${shown}”`, allowed }));
  }

  // A text of the reader's in one form (NFC), or what is wrong with it.
  clean(name, text) {
    const wrong = this.texts.wrong.exec(text);
    if (wrong) {
      const place = [...text.slice(0, wrong.index)].length + 1;
      const code = wrong[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      throw new Mistake(fill(this.page.control, { name: this.page.labels[name], code, place }));
    }
    return this.texts[name === "text" ? "trimmed" : "oneLine"](text.normalize("NFC"));
  }

  // The units of the haystack.
  haystack({ haystack, text }) {
    if (haystack === "essay") return this.essays;
    if (!text) throw this.mistake("text", "", "text");
    if (this.own.text !== text) {
      const units = this.texts.sentences(text).map((unit) => this.row("haystack", unit));
      for (const unit of units) unit.tokens = Math.max(1, unit.tokens);
      this.own = { text, units };
    }
    return this.own.units;
  }

  // The pack's wording with the reader's in it, and the reader's own value.
  wording({ needle, question, prefix, distractors }) {
    const wording = { ...this.language.wording };
    if (needle) {
      const names = ["key", "value", ...Object.keys(this.language.labels.words.many)];
      const marks = this.texts.marks(needle);
      const own = marks.filter((mark) => !names.includes(mark));
      const keyed = marks.includes("key");
      if (own.length + marks.includes("value") !== 1 || !own.every(this.texts.trimmed)) {
        throw this.mistake("needle", needle, "needle");
      }
      if (distractors && (own.length || !keyed)) throw this.mistake("needle", needle, "several");
      if (!keyed && !question) throw this.mistake("question", "", "asked");
      [wording.own] = own;
      wording.needle = needle.replaceAll(`{${wording.own}}`, "{value}");
    }
    if (question) {
      if (distractors && !question.includes("{key}")) {
        throw this.mistake("question", question, "question");
      }
      const [head] = around(wording.template);
      wording.template = `${head}{context}\n${question.replaceAll("{key}", "{query}")}`;
    }
    if (question || prefix) {
      wording.answer_prefix = prefix ? ` ${prefix.replaceAll("{key}", "{query}")}` : "";
    }
    return wording;
  }

  // The prompt of a setting: {language, haystack, length, depth, distractors, index, needle,
  // question, prefix, text}, as rulerlib.playground.Setting has them, and the `kind` of keys and
  // values.
  make(setting) {
    const { count, texts, essays } = this;
    const { anchor, seam, frame: { before, between, chat, special } } = this.page;
    const labels = this.language.labels[setting.kind];
    const draws = this.language.draws[setting.kind][setting.distractors];
    const most = this.page.lengths.text;
    if (setting.text.length > most) {
      throw this.mistake("text", setting.text, "", `at most ${most.toLocaleString("en")} characters`);
    }
    setting = { ...setting };
    for (const name of ["needle", "question", "prefix", "text"]) {
      setting[name] = this.clean(name, setting[name]);
    }
    const wording = this.wording(setting);
    const units = this.haystack(setting);
    const { asked: [key, drawn], others, start } = draws[setting.index % draws.length];
    const value = wording.own ?? drawn;
    if (wording.own !== undefined || units !== essays) {
      const haystack = texts.folded(units.map(({ text }) => text).join(seam));
      if (haystack.includes(texts.folded(value))) throw this.mistake("needle", `{${value}}`, "value");
    }

    // What must stand in the prompt.
    const needle = (part, [key, value, depth]) =>
      this.row(part, fill(wording.needle, { ...labels.many, key, value }), { value, depth });
    const needles = others.map((other) => needle("distractor", other));
    const place = needles.filter(({ depth }) => depth < setting.depth).length;
    needles.splice(place, 0, needle("needle", [key, value, setting.depth]));
    const query = { ...labels.one, query: key };
    const [head, tail] = around(fill(wording.template, query));
    let prefix = fill(wording.answer_prefix, query);
    if (chat) prefix = texts.trimmedStart(prefix);

    // Room for the answer: more where a value of the reader's own needs more.
    const generate = Math.max(this.page.generate, Math.ceil(1.5 * count(value)) + 8);
    const fixed = special + count(before + head + anchor) + count(anchor + tail + between + prefix)
      - 2 * count(anchor) + sum(needles) + generate;
    const smallest = fixed + units.reduce((most, { tokens }) => Math.max(most, tokens), 0);
    if (setting.length < smallest) {
      throw this.mistake("length", String(setting.length), "", `at least ${smallest}`);
    }

    // Haystack up to the budget; the reader's own text begins where it begins.
    const filling = take(units, setting.length - fixed, units === essays ? start : 0);
    let rows, free;
    for (;;) {
      const [first, ...rest] = insert(filling, needles);
      const last = rest.length ? rest[rest.length - 1] : first;
      rows = [
        { part: "template", text: before, tokens: special + count(before) },
        { part: "instruction", text: head, tokens: this.added(head, before) },
        // It has no seam before it and may cost a token more.
        { ...first, tokens: this.added(first.text, before + head) },
        ...rest.flatMap((piece) => [{ part: "haystack", text: seam, tokens: 0 }, piece]),
        { part: "question", text: tail, tokens: this.added(tail, last.text) },
        { part: "template", text: between, tokens: this.added(between, tail) },
        { part: "prefix", text: prefix, tokens: this.added(prefix, between) },
        { part: "answer", text: "", tokens: generate },
      ];
      free = setting.length - sum(rows);
      if (free >= 0 || !filling.length) break;
      filling.pop();
    }
    return {
      fed: rows.map(({ text }) => text).join(""),
      rows: [...rows, { part: "free", text: "", tokens: free }],
      length: setting.length - free,
      generate,
      value,
      others: others.map(([, value]) => value),
      // How many of the reader's own sentences are read; fewer than there are, or some again.
      own: units === essays ? null : { read: filling.length, of: units.length },
    };
  }
}
