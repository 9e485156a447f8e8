"""The formats of `rulerlib export` have the same prompts."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import fields

import pytest
from helpers_model import some_samples

from rulerlib import commands as cli
from rulerlib import samples
from rulerlib.dataset import Dataset
from rulerlib.export import formats
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Part, Sample

pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (rulerlib[hub])")
yaml = pytest.importorskip("yaml")

STATED = {
    "names": ["niah_single_2", "niah_multikey_2", "vt", "fwe", "qa_1"], "languages": ["en", "da"],
    "lengths": [1100, 1300], "tokenizer": "words", "num_samples": 4, "seed": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def wanted():
    """Return the prompts by language, length and task."""
    given = {"tokenizer": "words", "num_samples": 4, "seed": 5}
    made = {}
    for language, length, name in itertools.product(
        STATED["languages"], STATED["lengths"], STATED["names"]
    ):
        data = Dataset(name, length, language, **given)
        prompts = [one.input + one.answer_prefix for one in data]
        made[language, str(length), name] = prompts
    return made


def of_jsonl(folder):
    for path in folder.rglob("validation.jsonl"):
        language, length, _, task = path.parts[-5:-1]
        prompts = [one.input + one.answer_prefix for one in samples.read(path, Sample)]
        yield (language, length, task), prompts


def of_lm_eval(folder):
    for path in folder.glob("rulerlib_*.yaml"):
        task = yaml.safe_load(re.sub(r"!function \S+", "none", path.read_text("utf-8")))
        if about := task.get("dataset_kwargs"):
            language, length, _, name = about["questions"].removesuffix(".jsonl").split("/")
            lines = (folder / about["questions"]).read_text("utf-8").splitlines()
            yield (language, length, name), [json.loads(line)["prompt"] for line in lines]


def of_parquet(folder):
    for path in folder.rglob("*.parquet"):
        table = pq.read_table(path)
        assert json.loads(table.schema.metadata[b"rulerlib"])["seed"] == 5
        rows = table.to_pylist()
        prompts = [row["input"] + row["answer_prefix"] for row in rows]
        yield (*path.parts[-3:-1], path.stem), prompts


READERS = {"jsonl": of_jsonl, "lm-eval": of_lm_eval, "parquet": of_parquet}


@pytest.mark.parametrize("to", formats.HARNESSES)
def test_the_prompts_are_the_same_in_every_format(to, wanted, tmp_path):
    assert str(tmp_path / "new") in formats.write(to, tmp_path / "new", **STATED)
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
        ("niah_multikey_2 --to jsonl -p present=0.5", "knobs"), ("vx --to jsonl", "vt"),
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


def test_parquet_has_every_field_and_the_metadata(tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs datasets (rulerlib[hub])")
    made = some_samples(9)
    made[3].context_id, made[4].token_position_answer, made[5].depths = 2, None, []
    made[7].golds = [["Ribe", "Skive"], ["5"]]
    made[6].parts = [Part("needle", 0, 9, key="ø", depth=50), Part("value", 2, 4)]
    path = tmp_path / "out" / "niah.parquet"
    formats.write_parquet(path, made, {"seed": 5})
    loaded = datasets.load_dataset(
        "parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")
    )
    for rows in (pq.read_table(path).to_pylist(), loaded):
        unpacked = [
            {**row, "parts": json.loads(row["parts"]), "facts": json.loads(row["facts"])}
            for row in rows
        ]
        assert [Sample.from_json(json.dumps(row)) for row in unpacked] == made
    assert {*rows[0]} == {field.name for field in fields(Sample)}
