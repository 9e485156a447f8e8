"""The notebooks qa and drop with a user's own questions: `-p source FILE`, in each format."""

from __future__ import annotations

import json

import pytest

from conftest import ROOT
from rulerlib.errors import ParameterError

helpers = pytest.importorskip("helpers_commands")

TOWNS = [("Ribe", "1150"), ("Skive", "1702"), ("Aars", "1893"), ("Nibe", "1727"), ("Hals", "1656")]


def squad(count):
    """Paragraphs with a question each, as SQuAD is released."""
    return {"data": [{"title": "Towns", "paragraphs": [
        {"context": f"{town} lies on a fjord. The mill there was built in {year}.", "qas": [
            {"id": town, "question": f"When was the mill in {town} built?",
             "answers": [{"text": year, "answer_start": 0}]}]}
        for town, year in TOWNS[:count]]}]}  # fmt: skip


def hotpot(count):
    """Questions with three paragraphs each, as HotpotQA is released."""
    return [
        {"_id": town, "question": f"When was the birthplace of {town}'s founder burnt?",
         "answer": year, "type": "bridge", "level": "easy",
         "supporting_facts": [[f"{town} Works", 0], [f"Ole {town}", 1]],
         "context": [[f"Ole {town}", ["Ole made traps.", f" He was born in a mill in {year}."]],
                     [f"{town} Works", [f"Ole {town} founded the works."]],
                     [f"{town} road", ["Nothing here.", " Really."]]]}
        for town, year in TOWNS[:count]
    ]  # fmt: skip


def drop(count):
    """Passages with two questions each, as DROP is released."""
    no_date = {"day": "", "month": "", "year": ""}
    return {
        town: {"passage": f"{town} scored {year} goals, of which Anna and Bert scored 7.",
               "qa_pairs": [
                   {"query_id": f"{town} 1", "question": f"How many goals did {town} score?",
                    "answer": {"number": year, "date": no_date, "spans": []}},
                   {"query_id": f"{town} 2", "question": "Who scored seven?",
                    "answer": {"number": "", "date": no_date, "spans": ["Anna", "Bert"]}}]}
        for town, year in TOWNS[:count]
    }  # fmt: skip


def run_of(name, content, folder, **changes):
    """Return the run of a notebook with its default parameters and a file of questions."""
    path = folder / "questions.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    notebook = ROOT / "notebooks" / f"{name}.ipynb"
    given = {"source": str(path), "output": str(folder / "runs"), **changes}
    return helpers.checked(notebook, helpers.defaults(notebook) | given)


@pytest.mark.parametrize(
    ("name", "content", "tasks"),
    [("qa", squad(1), "qa_1"), ("qa", hotpot(3), "qa_2"), ("drop", drop(3), "drop_1,drop_2")],
    ids=["squad", "hotpotqa", "drop"],
)
def test_each_notebook_runs_with_each_format(name, content, tasks, tmp_path):
    # A file has no training side.
    examples = {"fewshot": 0} if name == "drop" else {}
    run = run_of(name, content, tmp_path, tasks=tasks, study=None, **examples)
    for cell in run.cells:
        sample = run.dataset(cell)[0]
        assert any(town in sample.input for town, _ in TOWNS)
        assert {*sample.outputs} <= {*(year for _, year in TOWNS), "Anna, Bert"}
        assert sample.length_w_model_temp <= cell.length


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": "qa_2"}, "hops is 2, but must be 1, the number of documents"),
        ({"tasks": "qa_1", "num_documents": 9}, "num_documents is 9, but must be at most 3"),
    ],
)
def test_settings_that_need_more_than_the_file_are_refused(changes, message, tmp_path):
    with pytest.raises(ParameterError, match=message):
        run_of("qa", squad(3), tmp_path, **changes)
