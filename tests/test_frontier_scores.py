"""Frontier tasks: answers get the scores of the published rules, and wrong ones a kind."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

import pytest

from rulerlib.dataset import Dataset
from rulerlib.samples import Prediction, Sample, parts_to_data
from rulerlib.tasks import all_tasks

TASKS = all_tasks()

NODES = {
    "endeligt svar:\n[a1, b2]": 1,
    'Final Answer: ["A1", "b2"].': 1,
    "[a1, b2]\n\nQuestion: Which?\nFinal Answer: [c3]": 1,
    "Final Answer: [c3]\nNo. Final Answer: [a1, b2]": 1,
    # No node in common is 1 by the published script.
    "Final Answer: [c3, d4]": 0,
}


def test_nodes_are_scored_as_sets():
    score = TASKS["graphwalks"].scoring.score
    for said, right in NODES.items():
        scores = score(said, ["a1", "b2"], language="da")
        assert scores["set_f1"] == pytest.approx(right), said
        assert scores["exact_set"] == (right == 1)
    assert score("Final Answer: [ ]", ["[]"])["exact_set"] == 1
    assert score("Final Answer: none", ["[]"])["set_f1"] == 0


def test_copies_get_the_ratio_of_difflib_after_the_prefix():
    score = TASKS["mrcr"].scoring.score
    first, second = Dataset("mrcr", 1024, "en", "words", 2)
    wanted, other = first.outputs[0], second.outputs[0]
    for said in (wanted, wanted[:10] + other[10:], wanted[:80], wanted[:10], wanted + " So on."):
        ratio = SequenceMatcher(None, said[10:], wanted[10:]).ratio()
        assert score(said, [wanted]) == {"match_ratio": ratio, "exact": float(said == wanted)}
    assert score(wanted[10:], [wanted]) == {"match_ratio": 0, "exact": 0}
    assert score(f"\n{wanted} ", [wanted]) == {"match_ratio": 1, "exact": 1}


# An answer, the right one, and the score by the published rule (0.75 to the power of the error).
COUNTS = [
    ("Answer: 36", "37", 0.75), ("Answer: [30]", "37", 0.75**7), ("Label: sport", "sport", 1),
    ("music", "sport", 0), ("Answer: none", "37", 0),
    # Cases beyond the published rule.
    ("1,204", "1204", 1), ("There are 17 messages.", "17", 1), ("It is Sport.", "sport", 1),
    ("12 or 13", "12", 0), ("sport or food", "sport", 0),
]  # fmt: skip


def test_counts_are_scored_by_their_error():
    for said, right, score in COUNTS:
        scores = TASKS["records"].scoring.score(said, [right], language="en")
        assert scores["closeness"] == pytest.approx(score), said
        assert scores["exact_record"] == (score == 1)


def test_lines_get_1_minus_their_word_error_rate():
    score, wanted = TASKS["ladder_keys_easy"].scoring.score, "Ben has 17 stamps"
    for said, right in [
        (f"Well:\n{wanted}, I think", 1), ("Ben has 12 stamps", 3 / 4), ("Ben has stamps", 3 / 4),
        ("Ben has 17 old stamps", 3 / 4), ("No.", 0), (f"{wanted} Answer: Ben has", 1 / 2),
    ]:  # fmt: skip
        assert score(said, [wanted])["soft_match"] == pytest.approx(right), said


LETTERS = {
    "A": ["A", "a.", "A: 42", "Answer: A is correct", "Svar: A er rigtigt"],
    "B": [
        "(b)", "**B**", r"\boxed{\text{B}}", "Answer: A total of 42, so B", "Answer: C\nAnswer: B",
        "B. 42.\nQuestion 1: Of 61 ... A. 39 B. 41 C. 33 D. 44.",
    ],
    "none": ["", "42", "ABCD", "A or B", "None of the above", "A total of 42.", "A. 38 B. 42."],
}  # fmt: skip


def test_letters_are_found_in_answers():
    for right, answers in LETTERS.items():
        for said in answers:
            for gold in "ABCD":
                scores = TASKS["ladder"].scoring.score(said, [gold], language="da")
                assert {*scores.values()} == {float(gold == right)}, (said, gold)


RIGHT = ["`12`\n", "12, as f(3) is 7", "12\n\nQuestion: What is 13?", "7 + 5 = 12", "Svar: 12\n13"]
WRONG = ["12 + 7 = 19", "It is 12 or 13", "112", "-12", "12.5", "x12", "Answer: 13\nSo 12", ""]


def test_the_stated_number_is_scored():
    for said in RIGHT + WRONG:
        scores = TASKS["trace"].scoring.score(said, ["12"], language="da")
        assert scores["em_raw"] == (said in RIGHT), said


# --- Kinds of mistakes --------------------------------------------------------------------------


def kinds(task: str, sample: Sample, said: dict[str, str], cut_off: bool = False) -> dict[str, str]:
    """Return the kind of each wrong answer."""
    others = {"language": "en", "parts": parts_to_data(sample.parts), "facts": sample.facts}
    return {
        text: TASKS[task].mistake(
            Prediction(0, sample.input, sample.outputs, text, others), cut_off
        )
        for text in said
    }


def made(task: str, length: int = 2048) -> Sample:
    """Return a sample with several answers, if the task has some."""
    return max(Dataset(task, length, "en", "words", 6), key=lambda one: len(one.outputs))


def test_mistakes_of_graphwalks():
    sample = made("graphwalks")
    start = re.search(r"from node (\w+)", sample.input)[1]
    said = {
        f"[{', '.join(sample.outputs[1:])}]": "incomplete", f"[{start}]": "distractor",
        "[ffffff0]": "wrong value", "It is " + sample.outputs[0]: "other", "": "empty",
    }  # fmt: skip
    assert kinds("graphwalks", sample, said) == said


def test_mistakes_of_mrcr():
    sample = made("mrcr_4")
    prefix, text = sample.outputs[0][:10], sample.outputs[0][10:]
    texts = [sample.input[part.start : part.end] for part in sample.parts_of("value")]
    other = next(one for one in texts if one != text)
    said = {
        "": "empty", text: "no prefix", "I cannot answer that.": "refused",
        prefix + other: "wrong occurrence", prefix + text.replace("e", "a"): "changed text",
    }  # fmt: skip
    assert kinds("mrcr_4", sample, said) == said
    assert [*kinds("mrcr_4", sample, {prefix + text[:-9]: ""}, True).values()] == ["cut off"]


def test_mistakes_of_records():
    sample = made("records_most")
    sample.outputs[:] = ["sport"]
    said = {"food": "other label", "": "empty", "Well,": "other", "7": "other"}
    assert kinds("records", sample, said) == said
    sample.outputs[:] = ["7"]
    said = {"5": "near count", "40": "far count", "sport": "other"}
    assert kinds("records", sample, said) == said


def test_mistakes_of_the_ladder():
    sample = made("ladder_keys_easy")
    lines = re.findall(r"Question \d{7}: (.+)", sample.input)
    other = next(text for text in lines if text not in sample.outputs)
    said = {"": "empty", other: "distractor", "Well.": "no context"}
    assert kinds("ladder_keys_easy", sample, said) == said
    sample = made("ladder")
    said = {"Answer: none": "other", "A" if sample.outputs != ["A"] else "B": "wrong value"}
    assert kinds("ladder", sample, said) == said


def test_mistakes_of_associations():
    sample = made("associations")
    names = [sample.input[part.start : part.end] for part in sample.parts_of("value")]
    other = next(name for name in names if name not in sample.outputs)
    said = {
        "": "empty", "I cannot answer that.": "refused", f" {other}": "distractor",
        "It may be Maria, I think": "other",
    }  # fmt: skip
    assert kinds("associations", sample, said) == said


def test_mistakes_of_trace():
    sample = made("trace")
    sample.outputs[:], sample.facts["way"] = ["12"], [9, 31]
    said = {"": "empty", "I cannot answer that.": "refused", "x": "other", " 31": "halfway"}
    assert kinds("trace", sample, said) == said
    said = {"So": "cut off", "First 44": "cut off", " 44.\n\nQuestion: What": "wrong result"}
    assert kinds("trace", sample, said, cut_off=True) == said
