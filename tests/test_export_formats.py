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
    "names": ["niah_multikey_2", "vt", "qa_1"], "languages": ["en", "da"],
    "lengths": [1100, 1300], "tokenizer": "words", "num_samples": 4, "seed": 5,
}  # fmt: skip


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
        prompts = [row["input"] + row["answer_prefix"] for row in table.to_pylist()]
        yield (*path.parts[-3:-1], path.stem), prompts


READERS = {"jsonl": of_jsonl, "lm-eval": of_lm_eval, "parquet": of_parquet}


def test_the_prompts_are_the_same_in_every_format(tmp_path):
    places = itertools.product(STATED["languages"], STATED["lengths"], STATED["names"])
    wanted = {
        (language, str(length), name): [
            one.input + one.answer_prefix
            for one in Dataset(name, length, language, "words", num_samples=4, seed=5)
        ]
        for language, length, name in places
    }
    for to in formats.HARNESSES:
        assert str(tmp_path / to) in formats.write(to, tmp_path / to, **STATED)
        # A folder can be moved after it was written.
        moved = (tmp_path / to).rename(tmp_path / f"{to} moved")
        assert dict(READERS[to](moved)) == wanted


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
        ("vt --to jsonl -p chat", "p is 'chat'"),
    ],
)  # fmt: skip
def test_errors_come_before_anything_is_written(tmp_path, capsys, words, message):
    task, *others = words.split()
    options = ["--language", "en", "--tokenizer", "words", *others]
    assert cli.main(["export", task, str(tmp_path / "x"), *options]) == 2
    assert message in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_parquet_has_every_field(tmp_path):
    made = some_samples(9)
    made[3].context_id, made[4].token_position_answer, made[5].depths = 2, None, []
    made[7].golds = [["Ribe", "Skive"], ["5"]]
    made[6].parts = [Part("needle", 0, 9, key="ø", depth=50), Part("value", 2, 4)]
    formats.write_parquet(tmp_path / "niah.parquet", made, {"seed": 5})
    rows = pq.read_table(tmp_path / "niah.parquet").to_pylist()
    assert {*rows[0]} == {field.name for field in fields(Sample)}
    for row, sample in zip(rows, made, strict=True):
        row |= {name: json.loads(row[name]) for name in ("parts", "facts")}
        assert Sample.from_json(json.dumps(row)) == sample
