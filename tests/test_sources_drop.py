"""DROP: read alike in every form, with lm-eval's golds, and what is damaged is named."""

from __future__ import annotations

import json

import pytest
from helpers_reading import lm_eval_drop
from hypothesis import given
from hypothesis import strategies as st

from rulerlib.errors import DataError
from rulerlib.sources import KNOWN_DUPLICATE_ID, Rows, open_source

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


def lines(values) -> str:
    return "\n".join(map(json.dumps, values))


def opened(folder, content, name: str = "drop.json") -> Rows:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return open_source(str(path))


def everything(source: Rows) -> list[tuple]:
    asked = [source.question(number) for number in range(source.num_questions)]
    return [
        (one.id, one.text, one.golds, *(source.document(index) for index in one.targets))
        for one in asked
    ]


@pytest.mark.parametrize(
    "content",
    [
        RELEASED,
        rows(RELEASED),
        lines(rows(RELEASED)),
        lines(RELEASED.values()),
        lines({name: section} for name, section in RELEASED.items()),
        lines([{"passage_id": name, **section} for name, section in RELEASED.items()]),
    ],
    ids=["released", "rows", "lines", "passages", "named", "with an id"],
)
def test_every_form_is_read_alike(content, tmp_path):
    source = opened(tmp_path, content)
    assert everything(source) == READ
    assert source.num_documents == 2
    assert source.digest == opened(tmp_path, RELEASED, "again.json").digest


def test_the_question_that_stands_twice(tmp_path):
    """The row that ends in a question mark counts, in either order."""
    first = rows(RELEASED)[0] | {"query_id": KNOWN_DUPLICATE_ID}
    for marks in ("?/", "/?"):
        twice = [first | {"question": f"Which team won{mark}"} for mark in marks]
        source = opened(tmp_path, [*twice, *rows(RELEASED)[1:]])
        assert [one[0] for one in everything(source)] == [KNOWN_DUPLICATE_ID, "q2", "q3", "q4"]
        assert source.question(0).text == "Which team won?"


def test_a_question_without_any_answer_is_left_out(tmp_path):
    left = {"question": "Why?", "query_id": "q5", "answer": answer(date={}, spans=[" "])}
    released = {**RELEASED, "x": {"passage": "Nobody knows.", "qa_pairs": [left, left]}}
    assert everything(opened(tmp_path, released)) == READ
    with pytest.raises(DataError, match="no question that has an answer"):
        opened(tmp_path, {"x": released["x"]})


# Malformed passages and files.
DAMAGES = [
    ({"passage": " "}, "passage 1: .*the passage is empty"),
    ({"qa_pairs": [{"question": "Which?", "answer": "8"}]}, "string indices must be integers"),
    ({"qa_pairs": [{"question": "?", "answer": answer(date="May")}]}, "no attribute 'get'"),
]
OTHERS = [
    (lines([rows(RELEASED)[0], {"passage": "x", "question": "y"}]), "line 2: .*'answer' is"),
    ({**RELEASED, "x": "no passage"}, "passage 3: .*its fields are 'x'"),
    ({"passages": []}, "its fields are 'passages'"),
]
DAMAGED = [({"nfl_1": RELEASED["nfl_1"] | change}, said) for change, said in DAMAGES]


@pytest.mark.parametrize(("content", "said"), [*DAMAGED, *OTHERS], ids=str)
def test_what_is_not_drop_is_named(content, said, tmp_path):
    with pytest.raises(DataError, match=said) as caught:
        opened(tmp_path, content)
    place = f"{tmp_path / 'drop.json'}, passage 1: not in the schema"
    assert str(caught.value).startswith(place) or (content, said) in OTHERS


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
    assert [golds for _, _, golds, _ in everything(source)] == [*filter(None, wanted)]
