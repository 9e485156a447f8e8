"""The two lines that describe a run agree with what it asks."""

from __future__ import annotations

import re

import pytest

from rulerlib import files, show
from rulerlib.prompts import Decoding
from rulerlib.runs import Run

pytest.importorskip("pandas")
pytest.importorskip("tokenizers")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(files.HOME, str(tmp_path))


def numbers(text):
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?= questions)", text)]


def test_a_run_shows_how_many_questions_it_asks():
    study = [{"num_needle_k": 2}, {"num_needle_k": 4}]
    # The shortest length is too short for the task.
    run = Run("niah_single_2,niah_multikey_3", length=2048, num_lengths=6, num_samples=700,
              family="niah", study=study, study_length=[512, 1024], study_samples=3)  # fmt: skip
    first, second = show.run(run).text.splitlines()
    assert numbers(first) == [700 * len(run.cells)]
    assert numbers(second) == [12]
    named = re.search(r"at (.+?) tokens", first)[1]
    lengths = [int(n) * (1024 if k else 1) for n, k in re.findall(r"(\d+)(K?)", named)]
    assert lengths == sorted({cell.length for cell in run.cells})
    assert "niah_single_2 and niah_multikey_3" in first
    assert "2 settings at 512 and 1K tokens" in second
    assert second.startswith("Greedy decoding, questions of seed 42, with a chat template.")
    assert "_model" not in run.loaded_engine.__dict__


def test_a_run_shows_its_decoding_and_languages():
    drawn = Decoding(temperature=0.7, samples=4)
    run = Run("niah_single_2", length=512, num_samples=2, decoding=drawn, question_language="en")
    first, second = show.run(run).text.splitlines()
    assert first.endswith("2 questions. Language: Dansk, with questions in English.")
    named = "<bdi lang='da'>Dansk</bdi>, with questions in <bdi lang='en'>English</bdi>."
    assert named in show.run(run).markup
    assert second.startswith("Sampling at temperature 0.7, 4 answers per question,")
    assert "study" not in second
