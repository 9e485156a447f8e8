"""The search for the effective length is right as often as it says, for few tokens."""

from __future__ import annotations

import argparse
import itertools
import json

import numpy as np
import pytest

from benchmarks.effective import searched as searched_published
from rulerlib.effective import QUERIES, SHARE, Search, find, main
from rulerlib.errors import ParameterError
from rulerlib.runs import Run

LENGTHS = [4096, 8192, 16384, 32768]
TASKS = [f"task {number}" for number in range(6)]


def searched(curve, rng):
    """A search for a simulated model with an average at each length; tasks differ."""
    spread = rng.uniform(-1, 1, len(TASKS))
    spread = 0.9 * (spread - spread.mean()) * np.minimum(curve, 1 - np.array(curve))[:, None]
    rates = np.clip(np.array(curve)[:, None] + spread, 0, 1)
    search = Search(TASKS, LENGTHS)
    for length in search.rounds(SHARE):
        search.add(length, rng.random(len(TASKS)) < rates[LENGTHS.index(length)])
    return search


def test_the_truth_remains_and_no_length_far_below_the_threshold_is_claimed():
    rng, missed, false = np.random.default_rng(7), 0, 0
    for _ in range(40):
        curve = np.sort(rng.uniform(0.6, 0.99, len(LENGTHS)))[::-1]
        search = searched(curve, rng)
        missed += [None, *LENGTHS][int((curve > 0.856).sum())] not in search.candidates
        shortest = search.candidates[0]
        false += shortest is not None and curve[LENGTHS.index(shortest)] < 0.836
        assert search.done or search.spent >= SHARE * search.design
    assert missed <= 2
    assert false == 0


def test_published_averages_cost_what_the_page_says():
    given = argparse.Namespace(published="book/data/published_ruler.csv", seed=0, queries=QUERIES)
    rows = np.array([searched_published(number, given)[:4] for number in range(40)])
    assert np.median(rows[:, 0]) < 0.03
    assert rows[:, 2:].all(axis=1).sum() >= 37


def test_a_round_is_at_most_fair_whatever_the_rates_of_the_tasks_are():
    """All possible answers with their probabilities, if the average is the threshold."""
    for rates in ((0.8, 0.8, 0.8), (1.0, 1.0, 0.4), (0.6, 0.9, 0.9)):
        money = np.zeros(3)
        for answers in itertools.product((0.0, 1.0), repeat=3):
            search = Search(["a", "b", "c"], [1000, 2000], threshold=80)
            search.add(1000, answers)
            probability = np.prod(np.where(answers, rates, 1 - np.array(rates)))
            money += probability * np.exp(search.evidence())
        assert money.max() <= 1 + 1e-12
        assert money.min() > 0.9


def window(tmp_path, **options):
    """A reader that remembers all of 900 tokens, half of 1800, and a quarter of 3600."""
    stated = {"model": "r", "engine": "reference", "window": 700, "language": "en"}
    return find(stated, [900, 1800, 3600], "niah_single_1,vt", tmp_path, **options)


def test_a_reader_with_a_window_is_found_and_answers_are_cached(tmp_path, monkeypatch):
    search = window(tmp_path)
    shortest, longest = search.candidates[0], search.candidates[-1]
    assert (shortest or 0) <= 900 <= longest <= 1800
    assert search.spent < SHARE * search.design
    assert f"Effective length {search} " in search.sentence()
    plain = json.loads(json.dumps(search.told()))
    assert plain["tokens"] == plain["path"][-1]["tokens"] == search.spent
    assert plain["computed"] == plain["tokens"], "these tasks share no contexts"
    monkeypatch.setattr("rulerlib.models.reference.answer", None)
    again = window(tmp_path)
    assert again.path == search.path
    assert (str(again), again.spent) == (str(search), search.spent)


def test_questions_about_one_context_are_one_draw(tmp_path):
    stated = {"model": "r", "engine": "reference", "language": "en"}
    search = find(stated, [900, 1800], "niah_multikey_2,vt", tmp_path, queries=3)
    assert search.candidates[-1] == 1800
    multikey, variables = search.counts.sum(axis=0)
    assert search.answers == 3 * multikey + variables
    draws = search.counts.sum(axis=1)
    assert search.computed == 900 * draws[0] + 1800 * draws[1] < search.spent
    path = next(tmp_path.glob("*/en/*/data/niah_multikey_2*/validation.jsonl"))
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [line["context_id"] for line in lines[:4]] == [0, 0, 0, 1]


def test_a_folder_of_runs_can_take_the_place_of_a_model(tmp_path, capsys):
    Run(
        "niah_single_1,vt", "r", "reference", {"window": 700}, language="en", length=3600,
        num_lengths=3, num_samples=40, output=str(tmp_path),
    ).predict()  # fmt: skip
    words = [str(tmp_path), "--lengths", "900,1800,3600", "--output", str(tmp_path / "out")]
    assert main([*words, "--tasks", "niah_single_1,vt", "--share", "1"]) == 0
    told = json.loads((tmp_path / "out" / "effective.json").read_text("utf-8"))
    assert (told["low"] or 0) <= 900 <= told["high"] <= 1800
    assert told["answers"] < 3 * 2 * 40 / 2
    # If its answers run out, the remaining outcomes are printed.
    capsys.readouterr()
    words += ["--tasks", "vt", "--share", "1", "--threshold", "20"]
    assert main(words) == 0
    assert "Effective length " in capsys.readouterr().out


@pytest.mark.parametrize(("values", "name"), [
    ({"lengths": [900]}, "lengths"), ({"lengths": [900, 900]}, "lengths"),
    ({"threshold": 120}, "threshold"),
    ({"share": 0}, "share"),
    ({"seed": -1}, "seed"), ({"tasks": "nihah"}, "tasks"),
    ({"stated": {"model": "r", "engine": "reference", "length": 900}}, "models"),
])  # fmt: skip
def test_mistakes_are_one_line(values, name, tmp_path):
    given = {"stated": {"model": "r", "engine": "reference"}, "lengths": [900, 1800],
             "tasks": "vt", "output": tmp_path, **values}  # fmt: skip
    with pytest.raises(ParameterError, match=name):
        find(**given)
    assert not [*tmp_path.iterdir()]
