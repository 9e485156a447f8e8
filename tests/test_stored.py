"""Packed answers can be unpacked to the run that they came from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from book.stored import Stored, hashed, pack, predictions, read, unpack
from rulerlib import analysis
from rulerlib.errors import DataError
from rulerlib.files import write_object
from rulerlib.runs import Run
from rulerlib.samples import Prediction
from rulerlib.store import read_settings

pytest.importorskip("pandas")
TASKS = "niah_multikey_1,vt,qa_1"


FORMS = ["{}", " {}.\u2028", "", "{0} " * 9, "ikke {}\x07"]


def asked(run, cells="cells"):
    """Predict a run, or its study, with right answers in several forms."""
    engine = Stored(run.loaded_engine, 4)
    for data in map(run.dataset, getattr(run, cells)):
        for sample in data:
            prompt = data.frame.prompt(sample.input, sample.answer_prefix)
            text = FORMS[sample.index % len(FORMS)].format(sample.outputs[0])
            others = {"prompt_tokens": len(prompt), "tokens_generated": 3, "finished": bool(text)}
            engine.answers[prompt] = Prediction(sample.index, "", [], text, others)
    run = replace(run, loaded=engine)
    for cell in getattr(run, cells):
        run.ask(cell, len(run.dataset(cell)))
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("stored") / "runs"
    # Answers with other parameters are not packed.
    asked(Run("vt", output=str(root), length=900, num_samples=2, knobs={"num_hops": 2}))
    return asked(Run(TASKS, output=str(root), length=900, num_samples=6))


@pytest.fixture
def packed(run, tmp_path):
    pack(Path(run.output) / "lille", tmp_path / "packed")
    return tmp_path / "packed"


def test_every_answer_is_packed_with_a_hash_of_its_prompt(run, packed, tmp_path):
    cells = {part.cell: part for part in read(packed)}
    assert {*cells} == {*run.cells}
    for cell, part in cells.items():
        own = run.dataset(cell)
        assert [one.others["prompt"] for one in part.answers] == [hashed(one.input) for one in own]
        assert {one.input for one in part.answers} == {""}
    scores = analysis.scores(predictions(packed)).query("primary")
    wanted = analysis.scores(run.predictions()).query("primary")
    key = ["task", "index"]
    columns = [*key, "value", "pred", "cut_off"]
    assert (
        scores.sort_values(key)[columns].to_dict("list")
        == wanted.sort_values(key)[columns].to_dict("list")
    )  # fmt: skip
    pack(Path(run.output) / "lille", tmp_path / "again")
    for path in packed.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_an_unpacked_run_is_the_one_that_was_packed(run, tmp_path):
    for path in Path(run.output).rglob("*.settings.json"):
        settings = read_settings(path.with_suffix("").with_suffix(".jsonl"))
        settings["versions"] = {"torch": "1.0"}
        write_object(path, settings)
    pack(Path(run.output) / "lille", tmp_path / "again")
    unpack(tmp_path / "again", tmp_path / "runs")
    paths = [path for path in sorted(Path(run.output).rglob("*.json*")) if "hops" not in str(path)]
    assert len(paths) == 3 * 4
    for path in paths:
        other = tmp_path / "runs" / path.relative_to(run.output)
        if "settings" in path.name:
            assert json.loads(other.read_text()) == json.loads(path.read_text())
        else:
            assert other.read_bytes() == path.read_bytes()


def test_a_study_is_found_again(tmp_path, monkeypatch):
    rows = [{"task": "vt", "num_hops": 2}, {"task": "vt", "num_chains": 2}]
    given = {"tasks": "vt", "length": 900, "study": rows, "study_length": 900, "study_samples": 2}
    study = asked(Run(**given, output=str(tmp_path / "runs")), "study_cells")
    pack(tmp_path / "runs" / "studies" / "study" / "lille", tmp_path / "packed")
    unpack(tmp_path / "packed", tmp_path / "again")
    again = Run(**given, output=str(tmp_path / "again"))
    monkeypatch.setattr(type(again.loaded_engine), "generate", lambda *_: pytest.fail("asked"))
    again.predict_study()
    assert [*again.study_predictions()] == [*study.study_predictions()]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("seed", 7, "sample 0: the stored answer is for another prompt"),
     ("weights", "0" * 8, "the settings are those of")],
)  # fmt: skip
def test_answers_to_other_questions_are_refused(packed, tmp_path, field, value, message):
    settings = json.loads((packed / "settings.json").read_text("utf-8"))
    for part in settings["cells"]:
        part["cell"][field] = value
    (packed / "settings.json").write_text(json.dumps(settings), "utf-8")
    with pytest.raises(DataError, match=message):
        unpack(packed, tmp_path / "runs")
