"""The two lines on a run say what is really asked."""

from __future__ import annotations

import itertools
import re

import pytest

from rulerlib import fields, show
from rulerlib.dataset import Dataset
from rulerlib.prompts import Decoding
from rulerlib.runs import Run
from rulerlib.store import questions

pytest.importorskip("pandas")
pytest.importorskip("tokenizers")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(fields.HOME, str(tmp_path))


def numbers(text):
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?= questions)", text)]


def test_a_run_says_how_many_questions_it_asks():
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


@pytest.mark.filterwarnings("ignore:.*the haystack repeats its texts")
def test_a_run_says_what_does_not_fit_and_what_is_repeated(tmp_path):
    short = tmp_path / "short.txt"
    short.write_text(" ".join(f"Sten {number} er grå." for number in range(1, 31)), "utf-8")
    run = Run("niah_single_2,cwe", length=2048, num_lengths=3, num_samples=2, texts=str(short))
    first = show.run(run).text.splitlines()[0]
    there = {(cell.task, cell.length) for cell in run.cells}
    assert there < {*itertools.product(run.tasks, run.lengths)}
    named = re.search(r"Not asked, because the length is too short: (.+?)\.", first)[1]
    left = {512: [], 1024: [], 2048: []}
    for clause in named.split("; "):
        names, at = clause.split(" at ")
        left[{"512": 512, "1K": 1024}[at]] = names.split(" and ")
    assert {(task, at) for at, tasks in left.items() for task in tasks} == {
        pair for pair in itertools.product(run.tasks, run.lengths) if pair not in there
    }
    times = [f"{run.dataset(cell).repeats:g} times at" for cell in run.cells if cell.task != "cwe"]
    assert times
    assert all(words in first.split("on average a sentence stands there")[1] for words in times)
    plain = show.run(Run("niah_single_2", length=1024, num_samples=2)).text
    assert "Not asked" not in plain
    assert "repeat" not in plain


def test_a_run_says_how_it_differs_from_the_usual():
    drawn = Decoding(temperature=0.7, samples=4)
    run = Run("niah_single_2", length=512, num_samples=2, decoding=drawn, question_language="en")
    first, second = show.run(run).text.splitlines()
    assert first.endswith("2 questions. Language: Dansk, with questions in English.")
    named = "<bdi lang='da'>Dansk</bdi>, with questions in <bdi lang='en'>English</bdi>."
    assert named in show.run(run).markup
    assert second.startswith("Tokens drawn at temperature 0.7, 4 answers to each question,")
    assert "study" not in second


def test_files_that_are_there_are_told_with_who_counted_their_lengths(tmp_path):
    """Two tasks of one length, where all are allowed: those that are there, and no others."""
    for task in ("niah_single_2", "vt"):
        for folder, tokenizer in (("other", "words"), ("own", "lille")):
            data = Dataset(task, 1024, "da", tokenizer, num_samples=2)
            questions.write(data, tmp_path / folder / "1024" / task)
    asked = "lille is asked niah_single_2 and vt at 1K tokens: 4 questions"
    for folder, counted in (
        ("other", " Lengths were counted by another tokenizer, words."), ("own", "")
    ):  # fmt: skip
        first = show.run(Run("all", data=str(tmp_path / folder))).text.splitlines()[0]
        assert first == f"{asked}, 2 for each task and length. Language: Dansk.{counted}"
    for about in (tmp_path / "own").rglob("metadata.json"):
        about.unlink()
    first = show.run(Run("all", data=str(tmp_path / "own"))).text.splitlines()[0]
    assert first.endswith("The files do not say which tokenizer counted their lengths.")
