"""The notebooks with a user's own questions: `-p source FILE`, in every format, and small files."""

from __future__ import annotations

import json

import pytest

from conftest import ROOT
from rulerlib import show
from rulerlib.errors import ParameterError
from rulerlib.runs import Run

helpers = pytest.importorskip("helpers_commands")

TOWNS = [("Ribe", "1150"), ("Skive", "1702"), ("Aars", "1893"), ("Nibe", "1727"), ("Hals", "1656")]


def squad(count: int) -> dict:
    """Paragraphs with a question each, as SQuAD is released."""
    return {"data": [{"title": "Towns", "paragraphs": [
        {"context": f"{town} lies on a fjord. The mill there was built in {year}.", "qas": [
            {"id": town, "question": f"When was the mill in {town} built?",
             "answers": [{"text": year, "answer_start": 0}]}]}
        for town, year in TOWNS[:count]]}]}  # fmt: skip


def hotpot(count: int) -> list[dict]:
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


NO_DATE = {"day": "", "month": "", "year": ""}


def drop(count: int, first: int = 0) -> dict:
    """Passages with two questions each, as DROP is released."""
    return {
        town: {"passage": f"{town} scored {year} goals, of which Anna and Bert scored 7.",
               "qa_pairs": [
                   {"query_id": f"{town} 1", "question": f"How many goals did {town} score?",
                    "answer": {"number": year, "date": NO_DATE, "spans": []}},
                   {"query_id": f"{town} 2", "question": "Who scored seven?",
                    "answer": {"number": "", "date": NO_DATE, "spans": ["Anna", "Bert"]}}]}
        for town, year in TOWNS[first:count]
    }  # fmt: skip


def written(folder, content, name: str = "questions.json") -> str:
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


QA_1, QA_2 = ["task = qa_1", "context = False"], ["task = qa_2", "context = False"]
"""The rows of the study of the notebook that any file can answer."""


def numbers(*counts: int, task: str = "qa_1") -> list[str]:
    return [f"task = {task}, num_documents = {count}" for count in counts]


DROP = [f"task = {task}, reasoning = False, fewshot = 0" for task in ("drop_1", "drop_2")]


@pytest.mark.parametrize(
    ("name", "content", "tasks", "study"),
    [
        ("qa", squad(3), ("qa_1",), [*QA_1, *numbers(1, 2)]),
        ("qa", hotpot(3), ("qa_2",), [*QA_2, *numbers(2, 4, task="qa_2")]),
        ("drop", drop(3), ("drop_1", "drop_2"), DROP),
    ],
    ids=["squad", "hotpotqa", "drop"],
)
def test_each_notebook_runs_with_each_format(name, content, tasks, study, tmp_path, monkeypatch):
    """All of its cells, with its own table of tasks and settings, and the reference reader."""
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.chdir(tmp_path)
    written(tmp_path, content)
    given = {
        "source": "questions.json", "model": "reference", "engine": "reference",
        "engine_options": {"tokenizer": "lille"}, "num_samples": 3, "study_samples": 1,
        "output": str(tmp_path / "runs"),
    }  # fmt: skip
    shell = InteractiveShell.instance()
    shell.reset()
    for number, cell in enumerate(helpers.code_cells(ROOT / "notebooks" / f"{name}.ipynb")):
        helpers.executed(shell, cell.source)
        if number == 0:
            table = len(shell.user_ns["study"])
            shell.user_ns.update(given)
    run = shell.user_ns["run"]
    assert run.tasks == tasks
    said = [", ".join(f"{knob} = {value}" for knob, value in row.items() if knob != "group")
            for row in run.study]  # fmt: skip
    assert said == study
    # All that was left out is listed.
    shown = repr(show.run(run))
    assert all(note in shown for note in run.notes)
    left = [note for note in run.notes if note.startswith("Left out of the study: ")]
    assert len(study) + len(left) == table
    (task,) = {"qa": {"qa_1", "qa_2"}, "drop": {"drop_3"}}[name] - set(tasks)
    assert any(note.startswith(f"Left out: {task} (") for note in run.notes)
    # Nothing but the file's own questions is asked, in the study too.
    for cell in (*run.cells, *run.study_cells):
        sample = run.dataset(cell)[0]
        assert cell.knobs["source"] == "questions.json"
        assert any(town in sample.input for town, _ in TOWNS)
        assert {*sample.outputs} <= {*(year for _, year in TOWNS), "Anna, Bert"}


def run_of(name: str, source: str, folder, **more) -> Run:
    """The run of a notebook's defaults with a source."""
    given = helpers.defaults(ROOT / "notebooks" / f"{name}.ipynb")
    changes = {"source": source, "output": str(folder / "runs"), **more}
    return helpers.checked(ROOT / "notebooks" / f"{name}.ipynb", given | changes)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.filterwarnings("ignore:.*repeats its documents")
def test_a_small_file_is_asked_in_full(count, tmp_path):
    run = run_of("qa", written(tmp_path, squad(count)), tmp_path)
    assert run.length == 4096
    sample = run.dataset(max(run.cells, key=lambda cell: cell.length))[0]
    assert all(sample.input.count(f"{town} lies on a fjord") >= 1 for town, _ in TOWNS[:count])
    assert sample.length_w_model_temp > 4000


def test_examples_follow_the_training_side(tmp_path):
    source, train = written(tmp_path, drop(3)), written(tmp_path, drop(5, 3), "train.json")
    without, beside = (
        run_of("drop", source, tmp_path),
        run_of("drop", source, tmp_path, train=train),
    )
    for run, count in ((without, 0), (beside, 3)):
        for cell in run.cells:
            assert len([*run.dataset(cell)[0].parts_of("example")]) == count
    # The row of the study with one example needs them.
    assert [row["fewshot"] for row in without.study] == [0, 0]
    assert [row["fewshot"] for row in beside.study] == [0, 1, 0]
    # Examples that are asked for, and are not there, remain an error.
    with pytest.raises(ParameterError, match="fewshot is 3, but must be 0: the file"):
        run_of("drop", source, tmp_path, fewshot=3)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tasks": "qa_2"}, "hops is 2, but must be 1, the number of documents"),
        ({"num_documents": 9}, "num_documents is 9, but must be at most 3"),
        ({"study": [{"num_document": 1}]}, "knob is 'num_document', but must be one of"),
        ({"source": "nowhere.json"}, "source is 'nowhere.json', but must be a file that exists"),
    ],
)
def test_what_no_task_can_do_is_an_error(more, said, tmp_path):
    with pytest.raises(ParameterError, match=said):
        run_of("qa", **{"source": written(tmp_path, squad(3)), "folder": tmp_path, **more})
