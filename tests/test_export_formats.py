"""The formats of `rulerlib export` have the same prompts."""

from __future__ import annotations

import json
import re

import pytest

from rulerlib import commands as cli
from rulerlib import making, samples
from rulerlib.export import formats, lm_eval
from rulerlib.samples import Sample

pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (rulerlib[hub])")
yaml = pytest.importorskip("yaml")

STATED = {
    "names": ["niah_single_2", "niah_multikey_2", "vt", "fwe", "qa_1"], "languages": ["en", "da"],
    "lengths": [1100, 1300], "tokenizer": "words", "num_samples": 4, "seed": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def wanted():
    """Return the prompts by language, length and task."""
    return {
        (data.metadata["language"], str(data.length), data.task): [
            one.input + one.answer_prefix for one in data
        ]
        for data in making.from_settings(STATED)
    }


def of_inspect(folder):
    for path in folder.rglob("validation.jsonl"):
        language, length, _, task = path.parts[-5:-1]
        prompts = [one.input + one.answer_prefix for one in samples.read(path, Sample)]
        yield (language, length, task), prompts


def of_lm_eval(folder):
    for path in folder.glob("rulerlib_*.yaml"):
        task = yaml.safe_load(re.sub(r"!function \S+", "none", path.read_text("utf-8")))
        if about := task.get("dataset_kwargs"):
            language, length, _, name, _ = about["questions"].split("/")
            documents = lm_eval.documents(folder / about["questions"], about["frame"])
            prompts = [one["input"] + one["answer_prefix"] for one in documents]
            yield (language, length, name), prompts


def of_parquet(folder):
    for path in folder.rglob("*.parquet"):
        table = pq.read_table(path)
        assert json.loads(table.schema.metadata[b"rulerlib"])["seed"] == 5
        rows = table.to_pylist()
        prompts = [row["input"] + row["answer_prefix"] for row in rows]
        yield (*path.parts[-3:-1], path.stem), prompts


READERS = {"inspect": of_inspect, "lm-eval": of_lm_eval, "parquet": of_parquet}


@pytest.mark.parametrize("to", formats.HARNESSES)
def test_the_prompts_are_the_same_in_every_format(to, wanted, tmp_path):
    assert str(tmp_path / "new") in formats.write(to, tmp_path / "new", STATED)
    # A folder can be moved after it was written.
    (tmp_path / "new").rename(tmp_path / "moved")
    assert dict(READERS[to](tmp_path / "moved")) == wanted


def test_an_existing_folder_is_refused(tmp_path, capsys):
    words = f"vt {tmp_path}/x --to inspect --length 1000 --language en --tokenizer words"
    assert cli.main(["export", *words.split()]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert cli.main(["export", *words.split()]) == 2
    assert "a folder that does not exist yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("vt --to lm_eval", "'lm-eval'"), ("vt --to parquet --length 3", "length is 3"),
        ("niah_multikey_2 --to inspect -p present=0.5", "knobs"), ("vx --to inspect", "vt"),
    ],
)  # fmt: skip
def test_errors_come_before_anything_is_written(tmp_path, capsys, words, message):
    task, *others = words.split()
    options = ["--language", "en", "--tokenizer", "words", *others]
    assert cli.main(["export", task, str(tmp_path / "x"), *options]) == 2
    assert message in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
    assert [*tmp_path.iterdir()] == []
