// Prompts as rulerlib makes them, to the last byte. Units, what they cost, what was drawn, templates
// and the frame come from Python (book/needle_tasks.py); what the reader writes is read and counted
// here. tests/test_needle_page.py compares prompts and answers with those of rulerlib.

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

// As many units in a row, from the first on, as `room` tokens hold; after the last comes the first.
function take(units, room) {
  const taken = [];
  for (let at = 0; units[at].tokens <= room; at = (at + 1) % units.length) {
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
    const unit = ([text, tokens]) => ({ text, tokens, part: "haystack" });
    this.essays = language.units.map(unit);
    this.noise = [unit(language.noise)];
  }

  // How many tokens a text adds after another one.
  added(text, after) {
    return this.count(after + text) - this.count(after);
  }

  // A unit or a needle, with the tokens that it adds behind a seam.
  row(part, text, seam, more = {}) {
    return { part, text, tokens: this.added(seam + text, this.page.anchor), ...more };
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

  // The reader's own text as units of a haystack.
  written(text) {
    if (!text) throw this.mistake("text", "", "text");
    if (this.own.text !== text) {
      const { prose } = this.page.seams;
      const units = this.texts.sentences(text).map((unit) => this.row("haystack", unit, prose));
      for (const unit of units) unit.tokens = Math.max(1, unit.tokens);
      this.own = { text, units };
    }
    return this.own.units;
  }

  // The pack's wording of a form, "one" or "many", with the reader's in it, and the reader's own
  // value; `several` is whether there are more needles than one.
  wording(form, several, { needle, question, prefix }) {
    const wording = { ...this.language.wording[form] };
    if (needle) {
      const names = ["key", "value", ...Object.keys(this.language.labels.words.many)];
      const marks = this.texts.marks(needle);
      const own = marks.filter((mark) => !names.includes(mark));
      const keyed = marks.includes("key");
      if (own.length + marks.includes("value") !== 1 || !own.every(this.texts.trimmed)) {
        throw this.mistake("needle", needle, "needle");
      }
      if (several && (own.length || !keyed)) throw this.mistake("needle", needle, "several");
      if (!keyed && !question) throw this.mistake("question", "", "asked");
      [wording.own] = own;
      wording.needle = needle.replaceAll(`{${wording.own}}`, "{value}");
    }
    if (question) {
      if (several && !question.includes("{key}")) {
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

  // What must stand in a prompt whose needles have keys and values, and what fills it.
  hidden(setting, { generate }, draw) {
    const { texts, page: { seams } } = this;
    const labels = this.language.labels[setting.kind];
    const several = draw.needles.length > 1;
    const wording = this.wording(draw.form, several, setting);
    const said = (key, value) => fill(wording.needle, { ...labels.many, key, value });
    let units, free;
    if (draw.pool) {
      // Others of its form and nothing else, each once, in the order in which they were drawn.
      const pool = this.language.pools[setting.kind];
      units = draw.pool.map((at) => {
        const [key, value, tokens] = pool[at];
        return { part: "distractor", text: said(key, value), tokens, value };
      });
    } else if (setting.haystack === "text") {
      // The reader's own text begins where it begins.
      free = units = this.written(setting.text);
    } else {
      units = [...this.essays.slice(draw.start), ...this.essays.slice(0, draw.start)];
    }
    const own = (value) => wording.own ?? value;
    if (wording.own !== undefined || free) {
      const haystack = texts.folded(units.map(({ text }) => text).join(seams.prose));
      for (const [, value] of draw.needles.slice(0, draw.asked)) {
        if (haystack.includes(texts.folded(own(value)))) {
          throw this.mistake("needle", `{${own(value)}}`, "value");
        }
      }
    }
    const seam = draw.pool ? seams.lines : seams.prose;
    const needles = draw.needles.map(([key, value, depth], at) => {
      const part = at < draw.asked ? "needle" : "distractor";
      return this.row(part, said(key, own(value)), seam, { value: own(value), depth });
    });
    const [moved] = needles.splice(draw.moved, 1);
    moved.depth = setting.depth;
    moved.moved = true;
    needles.sort((one, other) => one.depth - other.depth);
    needles.splice(needles.filter(({ depth }) => depth < moved.depth).length, 0, moved);
    const query = { ...this.language.labels[setting.kind][draw.form], query: draw.query };
    const [head, tail] = around(fill(wording.template, query));
    // More room for the answer where a value of the reader's own needs it.
    const value = wording.own === undefined ? 0 : this.count(wording.own);
    return {
      head, tail, prefix: fill(wording.answer_prefix, query), needles, units, seam,
      generate: Math.max(generate, Math.ceil(1.5 * value) + 8),
      outputs: needles.filter(({ part }) => part === "needle").map(({ value }) => value),
      others: needles.filter(({ part }) => part !== "needle").map(({ value }) => value),
      own: free ? free.length : 0,
    };
  }

  // A chain of variables in noise: the first assignment at the depth, the others evenly after it.
  chain(setting, { generate }, { head, tail, prefix, assignments }) {
    const { lines } = this.page.seams;
    const step = (100 - setting.depth) / (assignments.length - 1);
    const needles = assignments.map(([value, text], at) =>
      this.row("needle", text, lines, { value, depth: setting.depth + at * step, moved: !at }));
    const outputs = assignments.map(([name]) => name);
    return { head, tail, prefix, needles, units: this.noise, seam: lines, generate, outputs,
             others: [], own: 0 };
  }

  // The prompt of a setting: {language, task, kind, haystack, length, depth, index, needle,
  // question, prefix, text}; `kind` is what keys and values are.
  make(setting) {
    const { count } = this;
    const { anchor, frame: { before, between, chat, special } } = this.page;
    const offered = this.language.tasks[setting.task];
    const task = offered[setting.kind] ?? offered;
    const most = this.page.lengths.text;
    if (setting.text.length > most) {
      const allowed = fill(this.page.words["at most"], { most: most.toLocaleString("en") });
      throw this.mistake("text", setting.text, "", allowed);
    }
    setting = { ...setting };
    for (const name of ["needle", "question", "prefix", "text"]) {
      setting[name] = this.clean(name, setting[name]);
    }
    const draw = task.draws[setting.index % task.draws.length];
    const plan = this[draw.assignments ? "chain" : "hidden"](setting, task, draw);
    const { head, tail, needles, units, seam, generate, outputs } = plan;
    const prefix = chat ? this.texts.trimmedStart(plan.prefix) : plan.prefix;

    const fixed = special + count(before + head + anchor) + count(anchor + tail + between + prefix)
      - 2 * count(anchor) + sum(needles) + generate;
    const smallest = fixed + units.reduce((most, { tokens }) => Math.max(most, tokens), 0);
    if (setting.length < smallest) {
      const allowed = fill(this.page.words["at least"], { least: smallest });
      throw this.mistake("length", String(setting.length), "", allowed);
    }

    // Haystack up to the budget.
    const filling = take(units, setting.length - fixed);
    let rows, free;
    for (;;) {
      const [first, ...rest] = insert(filling, needles);
      const last = rest.length ? rest[rest.length - 1] : first;
      rows = [
        { part: "template", text: before, tokens: special + count(before) },
        { part: "instruction", text: head, tokens: this.added(head, before) },
        // It has no seam before it and may cost a token more.
        { ...first, tokens: this.added(first.text, before + head) },
        ...rest.flatMap((piece) => [{ part: units[0].part, text: seam, tokens: 0, seam }, piece]),
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
      outputs,
      // Those of needles that nobody asks for, wherever they stand.
      others: [...plan.others, ...filling.flatMap(({ value }) => value ?? [])],
      // How many of the reader's own sentences are read; fewer than there are, or some again.
      own: plan.own ? { read: filling.length, of: plan.own } : null,
    };
  }
}
