// Prompts as rulerlib makes them, to the last byte: the rules of rulerlib/haystack.py,
// rulerlib/tasks/base.py, rulerlib/tasks/niah.py and rulerlib/playground/state.py again, for one
// needle that is asked for. tests/test_browser_model.py holds the two against each other.
//
// What is read here comes from book/browser.py: `page` is page.json, `language` is da.json, en.json.

// A mistake of the reader's; what it says is for the reader.
export class Mistake extends Error {
  name = "Mistake";
}

// What Python takes for white space, which is not quite what JavaScript does.
const SPACE =
  "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const SPACES = new RegExp(`${SPACE}+`, "gu");
const ENDS = new RegExp(`(?<=[.!?…])["'“”’«»)\\]]*${SPACE}+`, "gu");
const NO_TEXT = /[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]/u;
const BRACES = /\{([^{}]*)\}/gu;

// What stands before a unit when its cost is counted, and where a "sentence" is cut at last.
const ANCHOR = "x.";
const LONGEST_UNIT_WORDS = 60;

// More of one's own text than any length here can hold would only take time to count.
export const MOST_TEXT = 60000;

const trimmed = (text) => text.replace(new RegExp(`^${SPACE}+|${SPACE}+$`, "gu"), "");
const trimmedStart = (text) => text.replace(new RegExp(`^${SPACE}+`, "u"), "");
const oneLine = (text) => trimmed(text.replace(SPACES, " "));
const characters = (text) => [...text].length;

// JavaScript knows no case folding; both turns together come to the same but for rare letters.
const folded = (text) => text.toUpperCase().toLowerCase();

// One form for comparison, as rulerlib.metrics has it.
const normal = (text) => folded(text.normalize("NFKC")).normalize("NFKC");

// Whether a value stands in an answer: RULER's rule for one value.
export const found = (answer, value) =>
  normal(trimmed(trimmed(answer).replace(/[\x00-\x1f]/g, "\n"))).includes(normal(value));

// A template with its names filled in; a name that nobody gave stays as it is.
export const fill = (template, names) =>
  template.replace(/\{(\w+)\}/g, (whole, name) => names[name] ?? whole);

// What stands before and after the context in a template.
function around(template) {
  const at = template.indexOf("{context}");
  return [template.slice(0, at), template.slice(at + "{context}".length)];
}

export function sentences(text) {
  text = oneLine(text);
  const pieces = [];
  let begin = 0;
  for (const match of text.matchAll(ENDS)) {
    const end = match.index + match[0].length;
    pieces.push(trimmed(text.slice(begin, end)));
    begin = end;
  }
  pieces.push(text.slice(begin));
  return pieces.filter(Boolean).flatMap((sentence) => {
    const words = sentence.split(" ");
    const cut = [];
    for (let at = 0; at < words.length; at += LONGEST_UNIT_WORDS) {
      cut.push(words.slice(at, at + LONGEST_UNIT_WORDS).join(" "));
    }
    return cut;
  });
}

// Units of text, each counted once; after the last comes the first again.
export class Haystack {
  constructor(units, count) {
    this.units = units;
    this.seam = " ";
    this.text = folded(units.join(this.seam));
    const anchor = count(ANCHOR);
    const costs = new Map();
    for (const unit of units) {
      if (!costs.has(unit)) {
        costs.set(unit, Math.max(1, count(ANCHOR + this.seam + unit) - anchor));
      }
    }
    this.costs = units.map((unit) => costs.get(unit));
    this.longest = this.costs.reduce((most, cost) => Math.max(most, cost));
  }

  contains(text) {
    return this.text.includes(folded(text));
  }

  // As many units in a row, from `start` on, as `room` tokens hold.
  take(room, start) {
    const taken = { units: [], costs: [] };
    let left = room;
    for (let at = start; this.costs[at] <= left; at = (at + 1) % this.units.length) {
      taken.units.push(this.units[at]);
      taken.costs.push(this.costs[at]);
      left -= this.costs[at];
    }
    return taken;
  }
}

// Needles between units, each at the seam nearest to its depth in tokens.
function insert(filling, needles) {
  const sums = [0];
  for (const cost of filling.costs) sums.push(sums[sums.length - 1] + cost);
  const pieces = [];
  let done = 0;
  const copy = (end) => {
    for (; done < end; done++) {
      pieces.push({ text: filling.units[done], cost: filling.costs[done], part: "haystack" });
    }
  };
  for (const needle of needles) {
    const wanted = (sums[sums.length - 1] * needle.depth) / 100;
    let slot = sums.findIndex((sum) => sum >= wanted);
    if (slot > 0 && wanted - sums[slot - 1] <= sums[slot] - wanted) slot--;
    copy(Math.max(slot, done));
    pieces.push(needle);
  }
  copy(filling.units.length);
  return pieces;
}

// Makes the prompts of one language. `count` says how many tokens a text has.
export class Prompts {
  constructor(page, language, count) {
    this.page = page;
    this.language = language;
    this.count = count;
    this.essays = new Haystack(language.units, count);
    this.own = {};
  }

  mistake(parameter, value, allowed) {
    const shown = value.length > 120 ? `${value.slice(0, 117)}…` : value;
    const label = this.page.labels[parameter];
    return new Mistake(fill(this.page.must, { parameter: label, value: `“${shown}”`, allowed }));
  }

  // A text of the reader's in one form (NFC), or what is wrong with it.
  clean(name, text) {
    const wrong = NO_TEXT.exec(text);
    if (wrong) {
      const place = characters(text.slice(0, wrong.index)) + 1;
      const code = wrong[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      throw new Mistake(fill(this.page.control, { name: this.page.labels[name], code, place }));
    }
    return name === "text" ? trimmed(text.normalize("NFC")) : oneLine(text.normalize("NFC"));
  }

  haystack(setting) {
    if (setting.haystack === "essay") return this.essays;
    const { rules } = this.page;
    if (setting.text.length > MOST_TEXT) {
      throw this.mistake("text", setting.text, `at most ${MOST_TEXT.toLocaleString("en")} characters`);
    }
    const text = this.clean("text", setting.text);
    if (!text) throw this.mistake("text", "", rules.text);
    if (this.own.text !== text) {
      this.own = { text, haystack: new Haystack(sentences(text), this.count) };
    }
    return this.own.haystack;
  }

  // The pack's wording with the reader's in it, and the reader's own value.
  wording(setting, several) {
    const { rules } = this.page;
    const { labels } = this.language;
    const wording = { ...this.language.wording };
    const [needle, question, prefix] = ["needle", "question", "prefix"].map((name) =>
      this.clean(name, setting[name]));
    let own = null;
    if (needle) {
      const marks = [...needle.matchAll(BRACES)].map(([, mark]) => mark);
      const values = [...new Set(marks)].filter(
        (mark) => !["key", "value", ...Object.keys(labels.many)].includes(mark));
      const drawn = needle.includes("{value}");
      if (values.length + drawn !== 1 || !values.every(trimmed)) {
        throw this.mistake("needle", needle, rules.needle);
      }
      const keyed = needle.includes("{key}");
      if (several && (values.length || !keyed)) throw this.mistake("needle", needle, rules.several);
      if (!keyed && !question) throw this.mistake("question", "", rules.asked);
      if (values.length) [own] = values;
      wording.needle = own === null ? needle : needle.replaceAll(`{${own}}`, "{value}");
    }
    if (question) {
      if (several && !question.includes("{key}")) {
        throw this.mistake("question", question, rules.question);
      }
      const [head] = around(wording.template);
      wording.template = `${head}{context}\n${question.replaceAll("{key}", "{query}")}`;
    }
    if (question || prefix) {
      wording.answer_prefix = prefix ? ` ${prefix.replaceAll("{key}", "{query}")}` : "";
    }
    return { ...wording, own };
  }

  // The prompt of a setting: {language, haystack, length, depth, distractors, index, needle,
  // question, prefix, text}, as rulerlib.playground.Setting has them.
  make(setting) {
    const { page, count } = this;
    const { labels, draws } = this.language;
    const several = setting.distractors > 0;
    const wording = this.wording(setting, several);
    const haystack = this.haystack(setting);
    const kind = draws[setting.distractors];
    const draw = kind[setting.index % kind.length];
    const [key, drawn] = draw.asked;
    const value = wording.own ?? drawn;
    if ((wording.own !== null || haystack !== this.essays) && haystack.contains(value)) {
      throw this.mistake("needle", `{${value}}`, page.rules.value);
    }

    // What must stand in the prompt.
    const anchor = count(ANCHOR);
    const needle = (key, value, depth, part) => {
      const text = fill(wording.needle, { ...labels.many, key, value });
      const cost = count(ANCHOR + haystack.seam + text) - anchor;
      return { text, cost, part, depth, value };
    };
    const needles = draw.others.map(([key, value, depth]) =>
      needle(key, value, depth, "distractor"));
    const place = needles.filter(({ depth }) => depth < setting.depth).length;
    needles.splice(place, 0, needle(key, value, setting.depth, "needle"));
    const query = { ...labels.one, query: key };
    const [head, tail] = around(fill(wording.template, query));
    const prefix = fill(wording.answer_prefix, query);
    const { before, between, chat, special } = page.frame;
    const after = between + (chat ? trimmedStart(prefix) : prefix);

    // Room for the answer: more where a value of one's own needs more.
    const generate = Math.max(page.generate, Math.ceil(1.5 * count(value)) + 8);
    const ends = count(before + head + ANCHOR) + count(ANCHOR + tail + after) - 2 * anchor;
    const fixed = special + ends + needles.reduce((sum, { cost }) => sum + cost, 0) + generate;
    const smallest = fixed + haystack.longest;
    if (setting.length < smallest) {
      throw this.mistake("length", String(setting.length), `at least ${smallest}`);
    }

    // Haystack up to the budget. The first unit has no seam before it and may cost more.
    // The reader's own text begins where it begins.
    const start = haystack === this.essays ? draw.start : 0;
    const filling = haystack.take(setting.length - fixed, start);
    let pieces, fed, plain;
    for (;;) {
      pieces = insert(filling, needles);
      const first = pieces[0].text;
      const last = pieces[pieces.length - 1].text;
      const middle = pieces.slice(1).reduce((sum, { cost }) => sum + cost, 0) - count(last);
      fed = special + count(before + head + first) + middle + count(last + tail + after);
      plain = count(head + first) + middle + count(last + tail + prefix);
      if (Math.max(fed, plain) + generate <= setting.length || !filling.units.length) break;
      filling.units.pop();
      filling.costs.pop();
    }
    const context = pieces.map(({ text }) => text).join(haystack.seam);
    return {
      input: head + context + tail,
      prefix,
      fed: before + head + context + tail + after,
      value,
      others: draw.others.map(([, value]) => value),
      generate,
      length: fed + generate,
      // How many of the reader's own sentences are read; fewer than there are, or some again.
      own: haystack === this.essays ? null
         : { read: filling.units.length, of: haystack.units.length },
      // For the eye: texts one after another with what they are, and what the length is spent on.
      shown: [{ text: head, part: "instruction" },
              ...pieces.flatMap(({ text, part, value }, at) =>
                at ? [{ text: haystack.seam, part: "haystack" }, { text, part, value }]
                   : [{ text, part, value }]),
              { text: tail, part: "question" }, { text: prefix, part: "prefix" }],
      spent: this.spent({ special, before, between, head, after, pieces, fed, generate,
                          length: setting.length }),
    };
  }

  // What each token of the budget belongs to, in the order of the text.
  spent({ special, before, between, head, after, pieces, fed, generate, length }) {
    const { count } = this;
    const opening = special + count(before);
    const turn = count(between);
    const prefix = count(after) - turn;
    const instruction = special + count(before + head + pieces[0].text) - opening - pieces[0].cost;
    const context = pieces.reduce((sum, { cost }) => sum + cost, 0);
    const question = fed - opening - instruction - context - turn - prefix;
    return [["template", opening], ["instruction", instruction],
            ...pieces.map(({ part, cost }) => [part, cost]),
            ["question", question], ["template", turn], ["prefix", prefix],
            ["answer", generate], ["free", length - fed - generate]].filter(([, tokens]) => tokens);
  }
}
