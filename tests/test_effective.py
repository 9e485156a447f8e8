"""A search for the effective length is right as often as it says, for few tokens."""

from __future__ import annotations

import argparse
import itertools
import json

import numpy as np
import pytest

from benchmarks.effective import searched as searched_published
from rulerlib.adaptive import Search
from rulerlib.effective import QUERIES, SHARE, find, main
from rulerlib.errors import ParameterError
from rulerlib.runs import Run

LENGTHS = [4096, 8192, 16384, 32768]
TASKS = [f"task {number}" for number in range(6)]


def searched(curve, rng, confidence=0.95):
    """A search of a drawn model: the average at each length is the curve's, tasks differ."""
    spread = rng.uniform(-1, 1, len(TASKS))
    spread = 0.9 * (spread - spread.mean()) * np.minimum(curve, 1 - np.array(curve))[:, None]
    rates = np.clip(np.array(curve)[:, None] + spread, 0, 1)
    search = Search(TASKS, LENGTHS, confidence=confidence)
    for length, tasks in search.rounds(SHARE):
        rate = rates[LENGTHS.index(length)]
        search.add(
            length, [(task, float(rng.random() < rate[TASKS.index(task)])) for task in tasks]
        )
    return search


def test_the_truth_is_among_what_is_left_and_no_length_is_claimed_that_is_far_below():
    rng, missed, false, shares, widths = np.random.default_rng(7), 0, 0, [], []
    for _ in range(60):
        curve = np.sort(rng.uniform(0.6, 0.99, len(LENGTHS)))[::-1]
        search = searched(curve, rng)
        missed += [None, *LENGTHS][int((curve > 0.856).sum())] not in search.candidates
        shortest = search.candidates[0]
        false += shortest is not None and curve[LENGTHS.index(shortest)] < 0.836
        shares.append(search.spent / search.design)
        value, low, high = search.area()
        area = np.trapezoid(curve, np.log(LENGTHS)) / np.log(LENGTHS[-1] / LENGTHS[0])
        missed += not low <= area <= high
        assert low <= value <= high
        widths.append(high - low)
        assert search.done or search.spent >= SHARE * search.design
    assert missed <= 2
    assert false == 0
    assert np.median(shares) < 0.03
    assert np.median(widths) < 0.5


def test_published_averages_cost_what_the_page_says():
    told = argparse.Namespace(
        published="book/data/published_ruler.csv", seed=0, queries=QUERIES, confidence=0.95
    )
    rows = np.array([searched_published(number, told)[:4] for number in range(60)])
    fed, computed = np.median(rows[:, :2], axis=0)
    assert fed < 0.02
    assert computed < 0.0067
    assert rows[:, 2:].all(axis=1).sum() >= 57


def test_the_winnings_are_those_of_a_second_calculation():
    """Bet by bet, with the formula of the module's first lines; 0.85 is expected of each task."""
    search, won = Search(["a", "b"], [1000, 2000], threshold=80), []
    search.add(1000, [("a", 1.0), ("a", 0.0), ("b", 0.5)])
    for gap, money in ((0.014, 0.5), (0.02, 0.3), (0.08, 0.15)):
        variance = 0.85 * 0.15 + gap**2
        stake = min(2 * gap / (variance / 2 + variance), 0.8 / 0.8)
        won.append(money * (1 + stake * 0.2 / 2) * (1 - stake * 0.8 / 2) * (1 - stake * 0.3))
    # Bets on "below" are made only where the average is expected to lie near or below.
    above = np.log(0.05 + sum(won))
    np.testing.assert_allclose(search.evidence(), [above, 0.0, 0.0], atol=1e-9)


def test_a_round_is_no_more_than_fair_whatever_the_rates_of_the_tasks_are():
    """All answers that may come, with their chances, to all tasks, or to two by each lot."""
    for rates, rounds in itertools.product(
        ((0.8, 0.8, 0.8), (1.0, 1.0, 0.4), (0.6, 0.9, 0.9)), (["abcc"], ["ab", "ac", "bc"])
    ):
        money = np.zeros(3)
        for tasks in rounds:
            for answers in itertools.product((0.0, 1.0), repeat=len(tasks)):
                search = Search(["a", "b", "c"], [1000, 2000], threshold=80)
                search.add(1000, [*zip(tasks, answers, strict=True)])
                chances = [rates["abc".index(task)] for task in tasks]
                chance = np.prod(np.where(answers, chances, 1 - np.array(chances)))
                money += chance * np.exp(search.evidence()) / len(rounds)
        assert money.max() <= 1 + 1e-12
        assert money.min() > 0.9


def test_a_length_that_is_known_a_little_is_asked_few_tasks_by_lot():
    search, sizes = Search(TASKS, LENGTHS, threshold=80), {True: set(), False: set()}
    for number, (length, tasks) in enumerate(itertools.islice(search.rounds(1), 60)):
        known = search.counts[LENGTHS.index(length)].mean() >= 4
        sizes[known].add(len({*tasks}))
        search.add(length, [(task, float(number % 5 > 0)) for task in tasks])
    assert sizes == {False: {6}, True: {4}}
    totals = search.counts.sum(axis=0)
    assert totals.std() < 0.2 * totals.mean()


def window(tmp_path, **options):
    """A reader that remembers all of 900 tokens, half of 1800, and a quarter of 3600."""
    stated = {"model": "r", "engine": "reference", "window": 700, "language": "en"}
    return find(stated, [900, 1800, 3600], "niah_single_1,vt", tmp_path, quiet=True, **options)


def test_a_reader_of_known_reach_is_found_out_and_nothing_is_asked_twice(tmp_path, monkeypatch):
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


def test_questions_on_one_context_are_one_draw_and_its_tokens_computed_once(tmp_path):
    stated = {"model": "r", "engine": "reference", "language": "en"}
    search = find(stated, [900, 1800], "niah_multikey_2,vt", tmp_path, queries=3, quiet=True)
    assert search.candidates[-1] == 1800
    multikey, variables = search.counts.sum(axis=0)
    assert search.answers == 3 * multikey + variables
    draws = search.counts.sum(axis=1)
    assert search.computed == 900 * draws[0] + 1800 * draws[1] < search.spent
    path = next(tmp_path.glob("*/en/*/data/niah_multikey_2*/validation.jsonl"))
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [line["context_id"] for line in lines[:4]] == [0, 0, 0, 1]


def test_a_folder_of_runs_is_drawn_from_in_the_place_of_a_model(tmp_path, capsys):
    Run(
        "niah_single_1,vt", "r", "reference", {"window": 700}, language="en", length=3600,
        num_lengths=3, num_samples=40, output=str(tmp_path),
    ).predict()  # fmt: skip
    words = [str(tmp_path), "--lengths", "900,1800,3600", "--output", str(tmp_path / "out")]
    assert main([*words, "--tasks", "niah_single_1,vt", "--share", "1"]) == 0
    told = json.loads((tmp_path / "out" / "effective.json").read_text("utf-8"))
    assert (told["low"] or 0) <= 900 <= told["high"] <= 1800
    assert told["answers"] < 3 * 2 * 40 / 2
    assert told["seconds"] == 0
    # Where its answers run out, the outcomes that are left are told.
    capsys.readouterr()
    words += ["--tasks", "vt", "--share", "1", "--threshold", "20", "--confidence", "0.999999"]
    assert main(words) == 0
    assert "the answers of the folder, are used up" in capsys.readouterr().out
    assert main([words[0], "--tasks", "vt", "--lengths", "900,1000"]) == 2
    assert "lengths" in capsys.readouterr().err


@pytest.mark.parametrize(("values", "name"), [
    ({"lengths": [900]}, "lengths"), ({"lengths": [900, 900]}, "lengths"),
    ({"threshold": 120}, "threshold"), ({"confidence": 1}, "confidence"),
    ({"share": 0}, "share"), ({"speed": 0}, "tokens_per_second"),
    ({"seed": -1}, "seed"), ({"tasks": "nihah"}, "tasks"),
    ({"stated": {"model": "r", "engine": "reference", "length": 900}}, "models"),
])  # fmt: skip
def test_what_cannot_work_is_one_sentence(values, name, tmp_path):
    given = {"stated": {"model": "r", "engine": "reference"}, "lengths": [900, 1800],
             "tasks": "vt", "output": tmp_path, "quiet": True, **values}  # fmt: skip
    with pytest.raises(ParameterError, match=name):
        find(**given)
    assert not [*tmp_path.iterdir()]


def test_the_command_says_what_it_found(tmp_path, capsys):
    words = ["model=r,engine=reference,language=en", "--lengths", "600,1200", "--tasks", "vt"]
    assert main([*words, "--output", str(tmp_path)]) == 0
    before, speed, after, _ = (out := capsys.readouterr().out).splitlines()
    assert before.startswith("It will feed ")
    assert " hours" not in before
    assert speed.startswith(before[:-1])
    assert " tokens a second, in " in speed
    assert after.startswith("Effective length ")
    assert str(tmp_path / "effective.json") in out
    assert main([*words, "--output", str(tmp_path), "--tokens-per-second", "100"]) == 0
    assert " at 100 tokens a second, in " in capsys.readouterr().out.splitlines()[0]
    assert main(["model=r,engine=reference", "--lengths", "a,b"]) == 2
    assert "lengths" in capsys.readouterr().err
