"""Sources of questions: every schema is read alike, and what is damaged is named."""

from __future__ import annotations

import json
import sys
import types

import pytest
from helpers_reading import lm_eval_drop
from hypothesis import given
from hypothesis import strategies as st

from rulerlib.errors import DataError, MissingExtraError, ParameterError
from rulerlib.sources import KNOWN_DUPLICATE_ID, Rows, open_source

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


def lines(values) -> str:
    return "\n".join(map(json.dumps, values))


def opened(folder, content) -> Rows:
    path = folder / "source.json"
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
            tuple(source.documents[target] for target in asked.targets),
            tuple(source.documents[near] for near in source.related[number]),
        )
        for number in range(len(source.questions))
        for asked in [source.questions[number]]
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
        "\r\n\r\n".join(map(json.dumps, ROWS)) + "\n\n",
        lines(SQUAD["data"]),
        "\ufeff" + json.dumps(SQUAD, indent=2),
    ],
    ids=["squad", "data", "rows", "lines", "articles", "bom"],
)
def test_squad_in_every_shape(content, tmp_path):
    source = opened(tmp_path, content)
    assert everything(source) == [NORMANS, OXYGEN]
    assert len(source.documents) == 3
    assert source.digest == opened(tmp_path, ROWS).digest


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


# --- DROP -------------------------------------------------------------------------------------

NO_DATE = {"day": "", "month": "", "year": ""}


def answer(number="", date=NO_DATE, spans=()) -> dict:
    return {"number": number, "date": date, "spans": list(spans)}


PASSAGE = "Oakland won 29-6 on 21 December 2008, and Denver lost by -5 degrees."


def asked(number: int, text: str, first: dict, *validated: dict, **more) -> dict:
    """A question in the released format, with other accepted answers if given."""
    more |= {"validated_answers": [*validated]} if validated else {}
    return {"question": text, "query_id": f"q{number}", "answer": first, **more}


DAY = {"day": "21", "month": "December", "year": "2008"}
RELEASED = {
    "nfl_1": {"passage": PASSAGE, "qa_pairs": [
        asked(1, "Which team won?", answer(spans=["Oakland"]), answer(spans=["Raiders"]),
              answer(spans=["Oakland"]), answer(date={})),
        asked(2, "Who played?", answer(spans=[" Oakland", "Denver"], date={})),
        asked(3, "When?", answer(date=DAY), answer(date={**DAY, "day": ""}), answer("2008")),
    ]},
    "history_2": {"passage": "Ribe had 3 gates.", "qa_pairs": [
        asked(4, "How many gates?", answer(3), extra=1),
    ]},
}  # fmt: skip

READ = [
    ("q1", "Which team won?", (("Oakland",), ("Raiders",)), PASSAGE),
    ("q2", "Who played?", (("Oakland", "Denver"),), PASSAGE),
    ("q3", "When?", (("21 December 2008",), ("December 2008",), ("2008",)), PASSAGE),
    ("q4", "How many gates?", (("3",),), "Ribe had 3 gates."),
]


def rows(released: dict) -> list[dict]:
    """The released file as rows of the hub: validated answers in columns."""
    return [
        {
            "section_id": name,
            "query_id": asked.get("query_id", ""),
            "passage": section["passage"],
            "question": asked["question"],
            "answer": asked["answer"],
            "validated_answers": {
                kind: [each[kind] for each in asked.get("validated_answers", [])]
                for kind in ("number", "date", "spans")
            },
        }
        for name, section in released.items()
        for asked in section["qa_pairs"]
    ]


def passages(source: Rows) -> list[tuple]:
    return [
        (one.id, one.text, one.golds, *(source.documents[index] for index in one.targets))
        for one in source.questions
    ]


@pytest.mark.parametrize(
    "content",
    [
        RELEASED,
        rows(RELEASED),
        lines([{"passage_id": name, **section} for name, section in RELEASED.items()]),
    ],
    ids=["released", "rows", "passages"],
)
def test_drop_in_every_shape(content, tmp_path):
    source = opened(tmp_path, content)
    assert passages(source) == READ
    assert len(source.documents) == 2
    assert source.digest == opened(tmp_path, RELEASED).digest


def test_the_question_that_stands_twice(tmp_path):
    """The row that ends in a question mark counts, in either order."""
    first = rows(RELEASED)[0] | {"query_id": KNOWN_DUPLICATE_ID}
    for marks in ("?/", "/?"):
        twice = [first | {"question": f"Which team won{mark}"} for mark in marks]
        source = opened(tmp_path, [*twice, *rows(RELEASED)[1:]])
        assert [one[0] for one in passages(source)] == [KNOWN_DUPLICATE_ID, "q2", "q3", "q4"]
        assert source.questions[0].text == "Which team won?"


spans = st.lists(st.sampled_from(["Ribe", "5", " A, B", "21 May", "é"]), max_size=3)
given_answers = st.builds(
    answer,
    number=st.sampled_from(["", "", "7", "-2.5"]),
    date=st.sampled_from([NO_DATE, {"day": "1", "month": "May", "year": ""}]),
    spans=spans,
)


@given(st.lists(st.tuples(given_answers, st.lists(given_answers, max_size=4)), min_size=1))
def test_golds_are_those_of_lm_eval(tmp_path_factory, asked):
    lm_eval = lm_eval_drop() or pytest.skip("needs the files of lm_eval")
    pairs = [{"question": "q", "answer": one, "validated_answers": more} for one, more in asked]
    # One more, since a file must have a question that has an answer.
    pairs.append({"question": "q", "answer": answer("9")})
    released = {"x": {"passage": "p", "qa_pairs": pairs}}
    wanted = [
        tuple(dict.fromkeys(tuple(span.strip() for span in gold) for gold in golds if gold[0]))
        for golds in map(lm_eval.get_answers, rows(released))
    ]
    source = opened(tmp_path_factory.mktemp("drop"), released)
    assert [golds for _, _, golds, _ in passages(source)] == [*filter(None, wanted)]


# --- Damage -----------------------------------------------------------------------------------

GOOD = json.dumps(ROWS[2])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe{}", "not UTF-8"),
        (f"{GOOD}\n\n{GOOD[:-4]}", "line 3: not valid JSON"),
        ([], "no question that has an answer"),
        ({"query": 1, "text": 2}, "row 1: .*its fields are query, text"),
        ({"data": [{"paragraphs": [{"context": "x"}]}]}, "row 1: .*'qas' is missing"),
        ([rows(RELEASED)[0] | {"passage": " "}], "row 1: .*the passage is empty"),
        (lines([rows(RELEASED)[0], {"passage": "x", "question": "y"}]), "row 2: .*'answer' is"),
    ],
)  # fmt: skip
def test_damage_is_named(content, said, tmp_path):
    with pytest.raises(DataError, match=said) as caught:
        opened(tmp_path, content)
    assert str(caught.value).startswith(str(tmp_path / "source.json"))
