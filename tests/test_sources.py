"""Sources of questions: every schema is read alike, and what is damaged is named."""

from __future__ import annotations

import json
import sys
import types

import pytest

from rulerlib.errors import DataError, MissingExtraError, ParameterError
from rulerlib.sources import Rows, open_source

SQUAD = {"version": "v2.0",
         "data": [{"title": "Normans",
                   "paragraphs": [{"context": "The Normans gave their name to Normandy. ",
                                   "qas": [{"id": "1", "question": " Who named Normandy?",
                                            "answers": [{"text": "The Normans", "answer_start": 0},
                                                        {"text": "Normans", "answer_start": 4},
                                                        {"text": "Normans", "answer_start": 4}],
                                            "is_impossible": False},
                                           {"id": "2", "question": "Who named Spain?",
                                            "answers": [],
                                            "plausible_answers": [{"text": "Normans",
                                                                   "answer_start": 4}],
                                            "is_impossible": True}]},
                                  {"context": "They spoke Norman French.", "qas": []}]},
                  {"title": "Oxygen",
                   "paragraphs": [{"context": "Oxygen is element 8.",
                                   "qas": [{"id": "3", "question": "Which?",
                                            "answers": [{"text": "8"}]}]}]}]}  # fmt: skip

# The same as rows, as hubs have them; a row for each question.
ROWS = [{"title": "Normans", "context": "The Normans gave their name to Normandy.",
         "question": "Who named Normandy?",
         "answers": {"text": ["The Normans", "Normans", "Normans"], "answer_start": [0, 4, 4]}},
        {"title": "Normans", "context": "They spoke Norman French.", "question": "Who?",
         "answers": {"text": [], "answer_start": []}},
        {"title": "Oxygen", "context": "Oxygen is element 8.", "question": "Which?",
         "answers": {"text": ["8"], "answer_start": [18]}}]  # fmt: skip

HOTPOT = [{"_id": "1", "question": "Where was the founder of Acme born?", "answer": "Ribe",
           "supporting_facts": [["Acme", 0], ["Wile", 1], ["Wile", 0]],
           "context": [["Roads", ["Roads are long."]],
                       ["Wile", ["Wile made traps.", " He was born in Ribe."]],
                       ["Acme", ["Acme was founded by Wile."]]]},
          {"_id": "2", "question": "What needs a document that is not here?", "answer": "Roads",
           "supporting_facts": [["Roads", 0], ["Nowhere", 0]],
           "context": [["Roads", ["Roads are long."]]]}]  # fmt: skip


def columns(rows: list[dict]) -> list[dict]:
    """HotpotQA as released, in the schema of its copy on the hub."""
    return [
        {
            **row,
            "supporting_facts": {
                "title": [title for title, _ in row["supporting_facts"]],
                "sent_id": [number for _, number in row["supporting_facts"]],
            },
            "context": {
                "title": [title for title, _ in row["context"]],
                "sentences": [sentences for _, sentences in row["context"]],
            },
        }
        for row in rows
    ]


def opened(folder, content, name: str = "source.json") -> Rows:
    path = folder / name
    if not isinstance(content, (str, bytes)):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_source(str(path))


def everything(source: Rows) -> list[tuple]:
    """All questions with what they point to, as text."""
    return [
        (
            asked.text,
            asked.answers,
            tuple(source.document(target) for target in asked.targets),
            tuple(source.document(near) for near in source.related(number)),
        )
        for number in range(source.num_questions)
        for asked in [source.question(number)]
    ]


NORMANS = (
    "Who named Normandy?",
    ("The Normans", "Normans"),
    ("The Normans gave their name to Normandy.",),
    ("The Normans gave their name to Normandy.", "They spoke Norman French."),
)
OXYGEN = ("Which?", ("8",), ("Oxygen is element 8.",), ("Oxygen is element 8.",))


@pytest.mark.parametrize(
    "content",
    [
        SQUAD,
        {"data": ROWS},
        ROWS,
        "\n".join(map(json.dumps, ROWS)),
        "\r\n\r\n".join(map(json.dumps, ROWS)) + "\n\n",
        "\n".join(map(json.dumps, SQUAD["data"])),
        "\ufeff" + json.dumps(SQUAD, indent=2),
    ],
    ids=["squad", "data", "rows", "lines", "crlf", "articles", "bom"],
)
def test_squad_in_every_shape(content, tmp_path):
    source = opened(tmp_path, content)
    assert everything(source) == [NORMANS, OXYGEN]
    assert source.num_documents == 3
    assert source.digest == opened(tmp_path, ROWS).digest


@pytest.mark.parametrize(
    "answers",
    [["8"], "8", [{"text": "8"}], {"text": "8"}, {"text": ["8"]}, {"text": [" 8 ", "", "8"]}],
    ids=str,
)
def test_answers_in_every_shape(answers, tmp_path):
    assert everything(opened(tmp_path, [{**ROWS[2], "answers": answers}])) == [OXYGEN]


def test_what_no_text_answers_is_left_out(tmp_path):
    empty = {**ROWS[2], "context": " "}
    impossible = {**ROWS[2], "is_impossible": True}
    assert everything(opened(tmp_path, [empty, impossible, ROWS[2]])) == [OXYGEN]
    with pytest.raises(DataError, match="no question that has an answer"):
        opened(tmp_path, [empty, impossible])


@pytest.mark.parametrize("shape", [list, columns])
def test_hotpotqa_in_both_schemas(shape, tmp_path):
    source = opened(tmp_path, shape(HOTPOT))
    ((question, answers, targets, near),) = everything(source)
    assert question == "Where was the founder of Acme born?"
    assert answers == ("Ribe",)
    assert targets == (
        "Acme\nAcme was founded by Wile.",
        "Wile\nWile made traps. He was born in Ribe.",
    )
    assert near == ("Roads\nRoads are long.", targets[1], targets[0])
    assert source.digest == opened(tmp_path, HOTPOT).digest


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for the package `datasets`; it needs no network."""
    asked = []
    splits = {"train": ROWS[2:], "validation": ROWS}

    def load_dataset(repository, configuration, revision=None):
        asked.append((repository, configuration, revision))
        if repository == "no/thing":
            raise ConnectionError("cannot reach the hub\nand more")
        return {} if repository == "no/splits" else splits

    module = types.SimpleNamespace(load_dataset=load_dataset)
    monkeypatch.setitem(sys.modules, "datasets", module)
    return asked


def test_a_data_set_of_the_hub(hub):
    assert everything(open_source("owner/some.set")) == [NORMANS, OXYGEN]
    assert everything(open_source("owner/name:da")) == [NORMANS, OXYGEN]
    assert everything(open_source("owner/name:da@refs/pr/1")) == [NORMANS, OXYGEN]
    assert hub == [
        ("owner/some.set", None, None),
        ("owner/name", "da", None),
        ("owner/name", "da", "refs/pr/1"),
    ]
    with pytest.raises(ParameterError, match=r"can be loaded \(cannot reach the hub\)"):
        open_source("no/thing")
    with pytest.raises(DataError, match="no split"):
        open_source("no/splits")


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rulerlib\[hub\]'"):
        open_source("alexandrainst/scandi-qa:da")


GOOD = json.dumps(ROWS[2])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "source.json: empty"),
        (b"\xff\xfe{}", "not UTF-8"),
        ("[1, 2", "line 1: not valid JSON"),
        ('{"data": [\n  {"title": "x",\n  oops}]}', "line 3: not valid JSON"),
        (f"{GOOD}\n\n{GOOD[:-4]}", "line 3: not valid JSON"),
        ([], "no question that has an answer"),
        ({"query": 1, "text": 2}, "row 1: .*its fields are 'query', 'text'"),
        ([ROWS[0], {**ROWS[1], "answers": 3}], "row 2: .*not iterable"),
        ([{**ROWS[0], "context": "\ud800"}], r"context holds half a character, U\+D800"),
        ({"data": [{"paragraphs": [{"context": "x"}]}]}, "article 1: .*'qas' is missing"),
        ([{**HOTPOT[0], "context": [["only a title"]]}], "row 1: not in the schema"),
    ],
    ids=str,
)
def test_damage_is_named(content, said, tmp_path):
    with pytest.raises(DataError, match=said) as caught:
        opened(tmp_path, content)
    assert str(caught.value).startswith(str(tmp_path / "source.json"))
