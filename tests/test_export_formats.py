"""The formats of `rulerlib export` have the same prompts."""

from __future__ import annotations

import json
import re

import pytest

from rulerlib import commands as cli
from rulerlib import samples
from rulerlib.dataset import Dataset
from rulerlib.export import formats, lm_eval
from rulerlib.prompts import PromptFormat
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
        for data in formats.datasets(**STATED)
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


READERS = {"jsonl": of_inspect, "inspect": of_inspect, "lm-eval": of_lm_eval, "parquet": of_parquet}


@pytest.mark.parametrize("to", formats.HARNESSES)
def test_the_prompts_are_the_same_in_every_format(to, wanted, tmp_path):
    assert str(tmp_path / "new") in formats.write(to, tmp_path / "new", STATED)
    # A folder can be moved after it was written.
    (tmp_path / "new").rename(tmp_path / "moved")
    assert dict(READERS[to](tmp_path / "moved")) == wanted


def test_the_questions_are_those_of_a_dataset(tmp_path, capsys):
    words = f"niah_multikey_1 {tmp_path} --to jsonl --length 1000,1200 --language en --samples 4"
    words += " --tokenizer words --seed 3 -p queries_per_context=2 -p chat=false"
    words += " -p tokens_to_generate=60 -p num_needle_k=3"
    assert cli.main(["export", *words.split()]) == 0
    wanted = Dataset(
        "niah_multikey_1", 1200, "en", "words", 4, 3, queries_per_context=2, room=60,
        knobs={"num_needle_k": 3}, format=PromptFormat(chat=False),
    )  # fmt: skip
    path = tmp_path / "en" / "1200" / "data" / "niah_multikey_1" / "validation.jsonl"
    assert [*samples.read(path, Sample)] == [*wanted]
    # A second call is accepted, another seed is not.
    assert cli.main(["export", *words.split()]) == 0
    assert cli.main(["export", *words.split(), "--seed", "4"]) == 2
    assert "seed = 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("vt --to lm_eval", "'lm-eval'"), ("vt --to parquet --length 3", "length is 3"),
        ("niah_multikey_2 --to inspect -p present=0.5", "knobs"), ("vx --to inspect", "vt"),
        ("vt --to jsonl --length 4096,x", "length is 'x'"),
        ("vt --to jsonl -p num_needle_k=3", "num_needle_k"),
        ("vt --to jsonl -p chat", "p is 'chat'"),
        ("vt --to jsonl --language da,da", "duplicates"),
        ("vt --to jsonl --tokenizer nobody/knows", "nobody/knows"),
    ],
)  # fmt: skip
def test_errors_come_before_anything_is_written(tmp_path, capsys, words, message):
    task, *others = words.split()
    options = ["--language", "en", "--tokenizer", "words", *others]
    assert cli.main(["export", task, str(tmp_path / "x"), *options]) == 2
    assert message in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
    assert [*tmp_path.iterdir()] == []
