"""Frontier tasks: independent readers with patterns of their own find every answer."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections import Counter

import pytest
from helpers_tasks import FAMILIES, SPECIAL, check_lengths, token_at
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, make_tokenizer
from rulerlib import frontier, tokens
from rulerlib.dataset import Dataset
from rulerlib.frontier.records import grammar
from rulerlib.models.reference import answer
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Sample
from rulerlib.tasks import all_tasks

ROWS = [name for name, row in all_tasks().items() if row.category == "frontier"]

# --- GraphWalks ---------------------------------------------------------------------------------

WALK = {
    ("da", "bfs"): r"Spørgsmål: .+ præcis dybde (?P<depth>\d+) fra knuden (?P<node>[0-9a-f]+)\?",
    ("en", "bfs"): r"Question: .+ exactly depth (?P<depth>\d+) from node (?P<node>[0-9a-f]+) .+\?",
    ("da", "parents"): r"Spørgsmål: .+ forældre til knuden (?P<node>[0-9a-f]+)\? .+ \[\]\.",
    ("en", "parents"): r"Question: .+ the parents of node (?P<node>[0-9a-f]+)\? .+ \[\]\.",
}
LABEL = {"da": "Endeligt svar:", "en": "Final Answer:"}
GRAPH = re.compile(r"[^\n]+\n\n((?:[0-9a-f]+ -> [0-9a-f]+\n)+)\n([^\n]+)\n([^\n]+)")


def walk(data: Dataset, sample: Sample) -> None:
    """Relax distances until nothing changes."""
    operation = data.row.operation
    lines, asked, form = GRAPH.fullmatch(sample.input).groups()
    edges = [tuple(line.split(" -> ")) for line in lines.splitlines()]
    question = re.fullmatch(WALK[sample.language, operation], asked)
    assert f'"{LABEL[sample.language]} [' in form
    assert sample.answer_prefix == f"\n{LABEL[sample.language]}"
    assert len({*edges}) == len(edges)
    assert all(source != target for source, target in edges)
    node = question["node"]
    if operation == "parents":
        right = {source for source, target in edges if target == node} or {"[]"}
    else:
        depth, distance, changed = int(question["depth"]), {node: 0}, True
        while changed:
            changed = False
            for source, target in edges:
                far = distance.get(source, 10**9) + 1
                if far <= depth and far < distance.get(target, 10**9):
                    distance[target], changed = far, True
        right = {name for name, far in distance.items() if far == depth}
    assert right == {*sample.outputs}
    assert len(sample.outputs) == len(right) <= 16
    # The last edge to each answer is recorded first.
    hops = sample.parts_of("hop")
    for output, position in zip(sample.outputs, sample.token_positions, strict=False):
        assert [hop.value for hop in hops if hop.token_position == position] == [output]
    needed, end = {part.key for part in hops}, int(operation == "parents")
    assert len(hops) == sum(edge[end] in needed for edge in edges), "all edges on the way"


# --- MRCR ---------------------------------------------------------------------------------------

HEAD = {"da": "bestilling.\n\nBruger: ", "en": "request.\n\nUser: "}
PLAIN = {"da": ("\n\nAssistent: ", "\n\nBruger: "), "en": ("\n\nAssistant: ", "\n\nUser: ")}
PREPEND = {
    "da": r"Gengiv nu de[nt] (?P<nth>\d+)\. (?P<form>\w+) om (?P<topic>\w+), ord for ord .+ skriv"
    r" (?P<prefix>\w{10}) lige foran, .+",
    "en": r"Prepend (?P<prefix>\w{10}) to the (?P<nth>\d+)(?:st|nd|rd|th) (?P<form>[\w ]+) about"
    r" (?P<topic>[\w ]+), with no space .+",
}
REQUEST = {"da": r"Skriv (et|en) {form} om {topic}\.", "en": r"Write a {form} about {topic}\."}


def dialogue(data: Dataset, sample: Sample) -> None:
    """Split the dialogue into turns, and count those with the same request."""
    language, text = sample.language, sample.input
    if not data.frame.turns:
        _, text = text.split(HEAD[language], 1)
        assert sample.answer_prefix == PLAIN[language][0].rstrip()
    reply, again = data.frame.turns or PLAIN[language]
    *exchanges, asked = [exchange.split(reply) for exchange in text.split(again)]
    texts = [text for _, text in exchanges]
    assert len({*texts}) == len(texts)
    assert all(35 <= len(text.split()) <= 85 and "{" not in text for text in texts)
    question = re.fullmatch(PREPEND[language], *asked)
    request = REQUEST[language].format(**question.groupdict())
    same = [text for wish, text in exchanges if re.fullmatch(request, wish)]
    right = same[int(question["nth"]) - 1]
    assert sample.outputs == [question["prefix"] + right]
    assert len(same) == data.row.num_needles
    assert [sample.input[part.start : part.end] for part in sample.parts_of("value")] == same
    place = sample.input.index(right)
    assert sample.token_position_answer == token_at(data.tokenizer, sample.input, place)


# --- Records ------------------------------------------------------------------------------------

# Counts, most, least, and one of two.
COUNTED = {
    "da": [
        r'Hvor mange af beskederne ovenfor handler om emnet "(\w+)"\?.+',
        r"Hvilket af emnerne (.+) forekommer oftest i .+",
        r"Hvilket af emnerne (.+) forekommer sjældnest .+",
        r"Hvilket af de to emner (\w+ og \w+) forekommer oftest i .+",
    ],
    "en": [
        r'How many of the messages above are about the subject "(\w+)"\?.+',
        r"Which of the subjects (.+) occurs most often .+",
        r"Which of the subjects (.+) occurs least often.+",
        r"Which of the two subjects (\w+ and \w+) occurs more often .+",
    ],
}
MESSAGES = {
    "da": r"[^\n]+ netop ét af disse emner: ([^.]+)\.[^\n]+\n\n(.+)\n\nSpørgsmål: (.+)",
    "en": r"[^\n]+ exactly one of these subjects: ([^.]+)\.[^\n]+\n\n(.+)\n\nQuestion: (.+)",
}
MESSAGE, AND = re.compile(r"2024-\d\d-\d\d \| \w+ \| (.+)"), re.compile(r", | og | and ")


def records(data: Dataset, sample: Sample) -> None:
    """Count the messages by subject; no answer follows from a tie or from one message."""
    language = sample.language
    subjects = grammar(frontier.load(language, "records"))
    listed, context, asked = re.fullmatch(MESSAGES[language], sample.input, re.DOTALL).groups()
    counts = Counter(subjects[MESSAGE.fullmatch(line)[1]] for line in context.split("\n"))
    assert {*counts} <= {*AND.split(listed)}
    [(way, named)] = [
        (number, hit[1]) for number, pattern in enumerate(COUNTED[language])
        if (hit := re.fullmatch(pattern, asked))
    ]  # fmt: skip
    if way == 0:
        assert sample.outputs == [str(counts[named])]
        return
    assert way == 3 or sorted(AND.split(named)) == sorted(AND.split(listed))
    ranked = sorted(AND.split(named), key=lambda label: counts[label], reverse=way != 2)
    assert abs(counts[ranked[0]] - counts[ranked[1]]) >= 2
    assert sample.outputs == ranked[:1]


# --- The ladder ---------------------------------------------------------------------------------

NEEDLE = {
    "da": re.compile(r"Et af de særlige magiske tal for (\S+) er: (\d{10})\."),
    "en": re.compile(r"One of the special magic numbers for (\S+) is: (\d{10})\."),
}
PROBLEM = {
    "da": re.compile(r"Spørgsmål (\d{7}): (.+\? A\. \d+ B\. \d+ C\. \d+ D\. \d+\.)"),
    "en": re.compile(r"Question (\d{7}): (.+\? A\. \d+ B\. \d+ C\. \d+ D\. \d+\.)"),
}
TASK = {"da": "\n\nOpgave: ", "en": "\n\nTask: "}
REPLY = {"da": "Det har jeg læst alt sammen.", "en": "I have read all of it."}
TIMES = re.compile(r"bags|shelves|poser|hylder")
MINUS = re.compile(r"gave|sold|collect|gav|solgt|samle")


def solved(problem: str) -> str:
    """Return the letter of the right option."""
    a, b = map(int, re.findall(r"\d+", problem.partition("?")[0])[:2])
    right = a * b if TIMES.search(problem) else a - b if MINUS.search(problem) else a + b
    return {value: letter for letter, value in re.findall(r"([A-D])\. (\d+)", problem)}[str(right)]


def ladder(data: Dataset, sample: Sample) -> None:
    """Find the line of a key, and solve it."""
    language, step, text = sample.language, data.row.step, sample.input
    if data.frame.turns:
        context, reply, task = data.frame.cut(text)
        assert reply == REPLY[language]
        text = context + ("\n" if step == "basic" else "\n\n") + task
    if step == "basic":
        _, *lines, question = text.split("\n")
        form, key = NEEDLE[language], re.search(r"([\w-]+)(?:, som| given| nævnes)", question)
    else:
        rest, _, question = text.rpartition(TASK[language])
        lines = rest.split("\n\n")[1].split("\n")
        form, key = PROBLEM[language], re.search(r"(\d{7})", question)
    values = dict(form.fullmatch(line).groups() for line in lines)
    assert len({*values.values()}) == len(values) == len(lines), "something stands there twice"
    value = values[key[1]]
    assert sample.outputs == [solved(value) if step in ("medium", "hard") else value]


# --- Associations -------------------------------------------------------------------------------

TABLES = tomllib.loads((ROOT / "rulerlib/frontier/associations.toml").read_text("utf-8"))
PROSE = {
    "da": r"[^\n]+\n\n(.+)\n\nSpørgsmål: (.+\?) Svar kun med navnet\.",
    "en": r"[^\n]+\n\n(.+)\n\nQuestion: (.+\?) Answer with the name alone\.",
}


def kinds(language: str) -> list[dict]:
    return [table for table in TABLES[language].values() if isinstance(table, dict)]


def associations(data: Dataset, sample: Sample) -> None:
    """Find each person by patterns of needles and questions, and the tables of pairs."""
    language, hop, people, found = sample.language, data.row.num_hops - 1, [], []
    context, question = re.fullmatch(PROSE[language], sample.input, re.DOTALL).groups()
    names = {"name": r"(\w+)", "thing": "([^.]+)", "query": "(.+)"}
    for table in kinds(language):
        needle, *asked = (
            re.sub(r"\\\{(\w+)\\\}", lambda hit: names[hit[1]], re.escape(table[form]))
            for form in ("needle", "one", "two") if form in table
        )  # fmt: skip
        rows = {row[0]: row[1:] for row in table["rows"]}
        here = [
            (name, rows[thing]) for name, thing in re.findall(needle, context)
            if name in TABLES[language]["names"] and thing in rows
        ]  # fmt: skip
        people += [name for name, _ in here]
        if query := next((hit[1] for form in asked if (hit := re.fullmatch(form, question))), ""):
            assert query.casefold() not in context.casefold()
            found += [name for name, hops in here if hops[hop:][:1] == [query]]
    assert found == sample.outputs
    # Nine people are mentioned about equally often.
    counts = Counter(people)
    assert counts.total() == 1 + max(8, 4 * data.length // 1000)
    assert len(counts) == 9
    assert max(counts.values()) - min(counts.values()) <= 2
    (needle,) = sample.parts_of("needle")
    values = [part for part in sample.parts_of("value") if needle.start <= part.start < needle.end]
    assert [sample.input[part.start : part.end] for part in values] == sample.outputs


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


@pytest.mark.parametrize("language", ["da", "en"])
@pytest.mark.parametrize("hop", [1, 2])
def test_needle_and_question_share_no_word(language, hop):
    count = 0
    for table in kinds(language):
        for thing, *hops in table["rows"]:
            if len(hops) < hop:
                continue
            count += 1
            needle = words_of(table["needle"].replace("{name}", "").replace("{thing}", thing))
            question = words_of(table[("one", "two")[hop - 1]].replace("{query}", hops[hop - 1]))
            for pair in itertools.product(needle, question):
                short, long = sorted(pair, key=len)
                assert len(short) < 3 or short not in long, (thing, pair)
                assert short[:4] != long[:4], (thing, pair)
    assert count >= 30


# --- Traces -------------------------------------------------------------------------------------

PROGRAM = {
    "da": r"[^\n]+\n\n(.+)\n\nSpørgsmål: Hvilken værdi har (\w+\(\d+\)), .+",
    "en": r"[^\n]+\n\n(.+)\n\nQuestion: What is the value of (\w+\(\d+\)) .+",
}


def trace(data: Dataset, sample: Sample) -> None:
    """Let Python run the program; the needles are the functions that the call runs."""
    program, query = re.fullmatch(PROGRAM[sample.language], sample.input, re.DOTALL).groups()
    names, functions, called = {}, {}, []
    exec(program, names, functions)

    def traced(name, made):
        return lambda x: called.append(name) or made(x)

    for name, made in functions.items():
        assert {*made.__code__.co_names} <= {*functions, "max", "min", "abs"}
        names[name] = traced(name, made)
    assert sample.outputs == [str(eval(query, names))]
    assert len(called) == data.row.num_steps
    assert sorted(called) == sorted(part.key for part in sample.parts_of("needle"))


# --- All of them --------------------------------------------------------------------------------

READERS = {
    "graphwalks": walk, "mrcr": dialogue, "records": records, "ladder": ladder,
    "associations": associations, "trace": trace,
}  # fmt: skip


def check(data: Dataset) -> None:
    """Check the answers by the text alone, the lengths, and what the reference reader answers."""
    for sample in data:
        READERS[data.row.family](data, sample)
        longest = check_lengths(data, sample)
        assert longest >= data.length - data.maker.filler.longest - 8 or data.whole
        said = answer(data.frame.prompt(sample.input, sample.answer_prefix))
        scores = data.row.scoring.score(said, sample.outputs, language=sample.language)
        assert scores[data.row.scoring.primary] == 1


@pytest.mark.parametrize("task", ROWS)
@pytest.mark.parametrize(
    ("kind", "language", "length", "count"),
    [("nasty", "en", 4096, 4), ("bytelevel", "da", 4096, 4), ("llama2", "da", 4096, 2),
     ("words", "da", 2048, 6), ("words", "en", 65_536, 1)],
)  # fmt: skip
def test_the_reader_finds_the_answers(task, kind, language, length, count):
    check(Dataset(task, length, language, make_tokenizer(kind), num_samples=count))


def of(task: str, **parameters: st.SearchStrategy) -> st.SearchStrategy:
    return st.tuples(st.just(task), st.fixed_dictionaries(parameters))


SETTINGS = st.one_of(
    of("graphwalks", operation=st.sampled_from(["bfs", "parents"]), depth=st.integers(1, 6)),
    of("mrcr", num_needles=st.integers(2, 16)),
    of("records", ask=st.sampled_from(["count", "label"]), skew=st.floats(1, 100)),
    of("trace", num_steps=st.integers(1, 30)),
)


@settings(max_examples=20, deadline=None)
@given(
    setting=SETTINGS, length=st.integers(5000, 7000), seed=st.integers(0, 10**9),
    language=st.sampled_from(["da", "en"]), kind=st.sampled_from(["words", "bytelevel"]),
)  # fmt: skip
def test_any_setting(setting, length, seed, language, kind):
    task, knobs = setting
    check(Dataset(task, length, language, make_tokenizer(kind), 1, seed, knobs=knobs))


@pytest.mark.parametrize(
    ("task", "family"),
    [("mrcr_4", "gemma 2"), ("ladder_keys_basic", "qwen 3"), ("ladder", "qwen 3")],
)
def test_a_chat_model_gets_turns(task, family):
    backend = make_tokenizer("bytelevel").backend
    tokenizer = tokens.FastTokenizer(backend, family, SPECIAL, FAMILIES[family])
    data = Dataset(task, 4096, "da", tokenizer, 2, format=PromptFormat(answer_prefix="user"))
    check(data)
    for sample in data:
        messages = data.frame.messages(sample.input, sample.answer_prefix)
        rendered = tokenizer.render(messages, **data.frame.template)
        assert rendered == data.frame.prompt(sample.input, sample.answer_prefix)
        roles = [turn["role"] for turn in messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        assert len(roles) > 20 if task == "mrcr_4" else len(roles) == 3
