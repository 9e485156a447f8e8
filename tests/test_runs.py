"""A run: mistakes are found before an engine loads, and every setting has its own files."""

from __future__ import annotations

import functools
import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from helpers_model import LIMIT, ROOT, Parrot, tiny_model, tree

pytest.importorskip("torch")

from conftest import CHAT_TEMPLATE
from rulerlib import tokens
from rulerlib.errors import ParameterError, RulerError
from rulerlib.models import transformers as engine_module
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.runs import Run
from rulerlib.store import read_settings

PARAMETERS = next(
    cell["source"]
    for cell in json.loads((ROOT / "notebooks" / "niah.ipynb").read_text("utf-8"))["cells"]
    if "parameters" in cell["metadata"].get("tags", [])
)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    return str(tiny_model(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="session")
def talker(tmp_path_factory):
    return str(tiny_model(tmp_path_factory.mktemp("models") / "talker", CHAT_TEMPLATE))


@pytest.fixture
def unloaded(monkeypatch):
    """Loading weights is an error; each tokenizer is read from disk only once."""
    read = tokens.load
    known: dict[object, tokens.Tokenizer] = {}

    def load(name):
        return known.setdefault(name, read(name))

    monkeypatch.setattr(tokens, "load", load)
    monkeypatch.setattr(engine_module.Engine, "_model", property(lambda _: pytest.fail("loaded")))


@pytest.fixture
def notebook(tiny, tmp_path, unloaded) -> Callable[..., Run]:
    """The notebook's own parameters cell, with some of them set as papermill would."""

    def made(**given):
        namespace: dict[str, object] = {"In": [""], "Out": {}, "_ih": [""], "json": json}
        exec("".join(PARAMETERS), namespace)
        small = {"model": tiny, "length": 1024, "num_lengths": 1, "output": str(tmp_path / "runs")}
        small["study"] = namespace["study"][:1]
        namespace |= {**small, **given}
        return Run.from_notebook(namespace, family="niah")

    return made


def refused(make, named, **given):
    with pytest.raises(RulerError) as error:
        make(**given)
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert named in text
    return text


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lenght", "did you mean 'length'"), ("type_needle_key", "did you mean 'type_needle_k'"),
        ("format", "one of"),
    ],
)  # fmt: skip
def test_an_unknown_parameter_is_named_with_the_nearest_one(notebook, name, meant):
    assert meant in refused(notebook, repr(name), **{name: 5})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("tasks", value) for value in ("nope", "", [])),
        *(("output", value) for value in ("", "/proc/nope", "\0")),
        *(("model", value) for value in ("/nope", "lile")),
        ("system_prompt", "Be brief."), ("primary", "part_match"), ("study", [5]),
        ("engine_options", "abc"), ("num_lengths", 0), ("engine", "vlmm"), ("chat", "maybe"),
        ("temperature", float("nan")), ("length", LIMIT + 1), ("study_length", LIMIT + 1),
        ("haystack", "hay"),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_an_invalid_value_is_named_before_anything_is_written(notebook, name, value, tmp_path):
    refused(notebook, name, **{name: value})
    assert not (tmp_path / "runs").exists()


def run(tiny, tmp_path, **more):
    given = {"tasks": "niah_single_2", "model": tiny, "length": 600, "num_samples": 3}
    options = {"engine_options": {"dtype": "float32", "device": "cpu"}}
    return Run(output=str(tmp_path / "runs"), **{**given, **options, **more})


def test_two_checkpoints_of_one_name_have_different_files(tiny, tmp_path):
    models = []
    for parent in ("one", "other"):
        models.append(shutil.copytree(tiny, tmp_path / parent / "checkpoint-500"))
    weights = models[1] / "model.safetensors"
    content = bytearray(weights.read_bytes())
    # The last number of the last tensor.
    content[-1] ^= 1
    weights.write_bytes(content)
    made = [run(str(model), tmp_path, tasks="niah_single_1") for model in models]
    first, second = (each.cells[0] for each in made)
    assert first.model == second.model == "checkpoint-500"
    assert made[0].answers(first) != made[1].answers(second)
    # A copy of the first elsewhere is the same model.
    moved = shutil.copytree(models[0], tmp_path / "third" / "checkpoint-500")
    assert run(str(moved), tmp_path, tasks="niah_single_1").cells == (first,)


brief = functools.partial(Decoding, tokens_to_generate=16)

WAYS = {
    "seed": {"seed": 7},
    "chat": {"format": PromptFormat(chat=False)},
    "system_prompt": {"format": PromptFormat(system_prompt="Be brief.")},
    "answer_prefix": {"format": PromptFormat(answer_prefix="user")},
    "stop": {"format": PromptFormat(stop=("\n",))},
    "samples": {"decoding": brief(temperature=0.5, seed=1, samples=2)},
    "room": {"decoding": Decoding(tokens_to_generate=8)},
    "texts": {"texts": "own.txt"},
    "other texts": {"texts": "other/own.txt"},
    "dtype": {"engine_options": {"dtype": "bfloat16", "device": "cpu"}},
    "knob": {"knobs": {"depth": 50}},
    "question_language": {"question_language": "en"},
    "shared": {"tasks": "niah_multikey_1", "queries_per_context": 2},
}


def test_every_setting_that_changes_answers_has_its_own_files(talker, tmp_path, monkeypatch):
    analysis = pytest.importorskip("rulerlib.analysis")
    monkeypatch.chdir(tmp_path)
    Path("other").mkdir()
    Path("own.txt").write_text("Min egen tekst er her. " * 50, encoding="utf-8")
    Path("other", "own.txt").write_text("En helt anden tekst. " * 50, encoding="utf-8")
    made = {
        name: run(talker, tmp_path, **{"decoding": brief(), "num_samples": 2, **way})
        for name, way in {"usual": {}, **WAYS}.items()
    }
    for way in made.values():
        way.predict()
    assert len({way.answers(way.cells[0]) for way in made.values()}) == len(made)
    before = tree(tmp_path / "runs")
    # A finished run loads no weights.
    monkeypatch.setattr(engine_module.Engine, "_model", property(lambda _: pytest.fail("loaded")))
    for way in made.values():
        replace(way).predict()
        (cell,) = way.cells
        for about, record in way.predictions():
            assert (about["name"], about["label"]) == (cell.name, cell.label)
            assert record.input == way.dataset(cell)[record.index].input
    assert tree(tmp_path / "runs") == before
    table = analysis.scores(analysis.read_predictions(tmp_path / "runs"))
    assert len(analysis.accuracy(table)) == len(made)


def test_a_study_asks_each_setting_at_each_length_it_fits(tiny, tmp_path):
    study = [
        {"group": "keys", "num_needle_k": 2},
        {"num_needle_v": 2, "num_needle_k": 2},
        {"group": "keys", "num_needle_v": 1},
    ]
    made = run(
        tiny, tmp_path, study=study, study_length=[800, 40, 700], study_samples=1, family="niah"
    )
    assert [cell.length for cell in made.study_cells] == [700] * 3 + [800] * 3, "none fits in 40"
    made.predict_study()
    rows = [about for about, _ in made.study_predictions()]
    assert [(about["group"], about["setting"], about["length"]) for about in rows] == [
        (group, setting, length)
        for length in (700, 800)
        for group, setting in (
            ("keys", "num_needle_k = 2"),
            ("num_needle_v, num_needle_k", "num_needle_v = 2, num_needle_k = 2"),
            ("keys", "num_needle_v = 1"),
        )
    ]
    analysis = pytest.importorskip("rulerlib.analysis")
    scores = analysis.scores(made.study_predictions())
    table = analysis.accuracy(scores, by=("group", "setting", "length"))
    assert table["n"].tolist() == [1] * 6
    with pytest.raises(ParameterError, match="study_length is 40"):
        _ = run(tiny, tmp_path, study=study, study_length=[40], family="niah").study_cells


def test_files_of_nvidia_can_be_run(tmp_path):
    # As prepare.py writes it, with fields that we lack.
    record = {"index": 7, "input": "Some noise", "outputs": ["42"], "length": 500,
              "length_w_model_temp": 500, "answer_prefix": " It is",
              "token_position_answer": 812, "max_seq_length": 4096}  # fmt: skip
    for length, task in itertools.product((512, 1024), ("niah_single_1", "qa_1")):
        path = tmp_path / "theirs" / str(length) / "data" / task / "validation.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    before = tree(tmp_path / "theirs")
    given = {"data": str(tmp_path / "theirs"), "output": str(tmp_path / "runs"), "num_samples": 10}
    made = Run("all", **given, loaded=Parrot())
    assert [(cell.task, cell.length) for cell in made.cells] == [
        ("niah_single_1", 512), ("qa_1", 512), ("niah_single_1", 1024), ("qa_1", 1024),
    ]  # fmt: skip
    made.predict()
    rooms = [read_settings(made.answers(cell))["tokens_to_generate"] for cell in made.cells]
    assert rooms == [128, 32, 128, 32], "RULER's values"
    assert len([*made.predictions()]) == 4
    assert tree(tmp_path / "theirs") == before
