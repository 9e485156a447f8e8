"""A dataset: the same bytes for the same parameters, kept on disk, refused where it differs.

Errors are in test_every_task.py.
"""

from __future__ import annotations

import json
import pkgutil
import re

import pytest

import rulerlib
from conftest import ROOT, python
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.files import digest
from rulerlib.store import METADATA, write_questions
from rulerlib.tasks import names


def made(task: str = "niah_single_2", length: int = 700, **options) -> Dataset:
    """A small dataset for the tokenizer that needs nothing."""
    return Dataset(task, length, **{"tokenizer": "words", "num_samples": 12, **options})


def shared(queries: int = 5, **options) -> Dataset:
    return made("niah_multikey_2", 900, queries_per_context=queries, **options)


def test_a_sample_of_a_shared_context_depends_on_its_index_alone():
    straight = list(shared(num_samples=17))
    assert [sample.context_id for sample in straight] == [index // 5 for index in range(17)]
    assert shared().metadata["queries_per_context"] == 5
    assert "queries_per_context" not in made().metadata, "a folder of before stays what it is"
    other = shared(num_samples=1000)
    for index in (16, 3, 9, 4, 5, 3, 0):
        assert other[index] == straight[index]
    assert list(shared(num_samples=7)) == straight[:7]


def test_metadata_says_all_that_decides(tmp_path):
    write_questions(made(knobs={"num_needle_k": 3}), tmp_path)
    stated = json.loads((tmp_path / METADATA).read_text(encoding="utf-8"))
    assert stated["task"] == "niah_single_2"
    assert stated["knobs"]["num_needle_k"] == 3
    assert (stated["language"], stated["length"], stated["seed"]) == ("da", 700, 42)
    assert (stated["tokenizer"], stated["chat"], stated["texts"]) == ("words", False, None)
    assert stated["rulerlib"] == rulerlib.__version__
    # Nor is any path of a machine in a dataset.
    whole = "".join(path.read_text("utf-8") for path in tmp_path.iterdir())
    assert not re.search(rf"{re.escape(str(ROOT))}|/home/|/tmp/|[A-Z]:\\", whole)


def test_metadata_cites_the_user_s_texts_by_hash(tmp_path):
    prose = "Toget kom for sent. Ingen blev vrede. " * 20
    own = tmp_path / "own.txt"
    own.write_text(prose, encoding="utf-8")
    from_file = made(texts=own)
    assert from_file.metadata["texts"] == digest([prose])
    assert "Toget kom for sent." in from_file[0].input
    assert made(texts=[prose]).metadata == from_file.metadata
    assert made(texts=[prose + "Slut."]).metadata["texts"] != from_file.metadata["texts"]


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ("niah_single_9", "(did you mean 'niah_single_"),
        ("niah", "tasks is 'niah', but must be one of all, ruler, frontier, niah_single_1, "),
        ("niah_single_1,niah_single_1", "but must be names that differ."),
        (["niah_single_1", 2], "tasks is 2, but must be one of"),
    ],
)
def test_bad_names(chosen, sentence):
    with pytest.raises(ParameterError) as caught:
        names(chosen, "niah")
    assert sentence in str(caught.value)


def test_making_data_imports_no_model_library():
    """A tokenizer and its chat template are read from their files alone."""
    code = (
        "import sys\n"
        "from rulerlib import checkpoints\n"
        "from rulerlib.dataset import Dataset\n"
        "from rulerlib.playground import Playground\n"
        "from rulerlib.runs import Run\n"
        "assert Dataset('niah_single_2', 1024, tokenizer='lille')[0].length <= 1024\n"
        "Run(tasks='niah_single_2,qa_1', length=2048).check()\n"
        "assert Playground(length=1024).sample.input\n"
        "checkpoints.limit('lille'), checkpoints.fingerprint('lille')\n"
        "print(sorted({'torch', 'transformers', 'huggingface_hub'} & sys.modules.keys()))\n"
    )
    done = python(code)
    assert done.stdout == "[]\n", done.stderr


def modules() -> list[str]:
    found = pkgutil.walk_packages(rulerlib.__path__, "rulerlib.")
    return ["rulerlib", *(module.name for module in found)]


@pytest.mark.parametrize("name", modules())
def test_the_examples_in_the_documentation_are_true(name, monkeypatch, tmp_path):
    import doctest
    import importlib

    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"needs {error.name}")
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(module).failed == 0


def test_a_right_answer_that_does_not_fit_names_the_tokens_to_set():
    with pytest.raises(ParameterError, match="tokens_to_generate is 4, but must be at least 9 "):
        Dataset("niah_single_3", 900, "en", "words", room=4)
    data = Dataset("niah_single_3", 900, "en", "words", room=9)
    assert data.tokens_to_generate == 9
    assert {data.tokenizer.count(sample.outputs[0]) for sample in data} == {9}
