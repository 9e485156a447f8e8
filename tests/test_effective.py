"""A search for the effective length is right as often as it says, for few tokens."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rulerlib.adaptive import Search
from rulerlib.effective import SHARE, find, main, write
from rulerlib.errors import ParameterError

LENGTHS = [4096, 8192, 16384, 32768]
TASKS = [f"task {number}" for number in range(6)]


def searched(curve, rng, confidence=0.95):
    """A search of a drawn model: the average at each length is the curve's, tasks differ."""
    spread = rng.uniform(-1, 1, len(TASKS))
    spread = 0.9 * (spread - spread.mean()) * np.minimum(curve, 1 - np.array(curve))[:, None]
    rates = np.clip(np.array(curve)[:, None] + spread, 0, 1)
    search = Search(TASKS, LENGTHS, confidence=confidence, seed=int(rng.integers(1 << 30)))
    while not search.done and search.spent < SHARE * search.design:
        length, tasks = search.ask()
        rate = rates[LENGTHS.index(length)]
        search.add(
            length, [(task, float(rng.random() < rate[TASKS.index(task)])) for task in tasks]
        )
    return search


def test_the_truth_is_among_what_is_left_and_no_length_is_claimed_that_is_far_below():
    rng, missed, false, shares = np.random.default_rng(7), 0, 0, []
    for _ in range(60):
        curve = np.sort(rng.uniform(0.6, 0.99, len(LENGTHS)))[::-1]
        search = searched(curve, rng)
        true = [None, *LENGTHS][int((curve > 0.856).sum())]
        missed += true not in search.candidates
        shortest = search.candidates[0]
        false += shortest is not None and curve[LENGTHS.index(shortest)] < 0.836
        shares.append(search.spent / search.design)
        assert search.done or search.spent >= SHARE * search.design
    assert missed <= 2
    assert false == 0
    assert np.median(shares) < 0.05


def test_the_winnings_are_those_of_a_second_calculation():
    """Bet by bet, with the formula of the module's first lines."""
    search = Search(["a", "b"], [1000, 2000], threshold=80, seed=1)
    expected, won = [0.85, 0.85], {stake: [0.0, 0.0] for stake in (0.12, 0.45)}
    search.add(1000, [("a", 1.0), ("a", 0.0), ("b", 0.5)])
    shares = [0.5, 0.5]
    for task, score in ((0, 1.0), (0, 0.0), (1, 0.5)):
        value = (score - expected[task]) / (shares[task] * 2) + 0.85 - 0.8
        for stake, logs in won.items():
            logs[0] += np.log(1 + stake / (0.85 - 0.85 + 0.8) * value)
            logs[1] += np.log(1 - stake / (0.15 + 0.85 - 0.8) * value)
    gap = 0.814 - 0.8
    above = np.log(0.005 + sum(0.4975 * np.exp(logs[0]) for logs in won.values()))
    # Bets on "below" are made only where the average is expected to lie near or below.
    assert gap > 0.01
    np.testing.assert_allclose(search.evidence(), [above, 0.0, 0.0], atol=1e-9)


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
    plain = json.loads(write(search, tmp_path).read_text("utf-8"))
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


def test_the_interval_of_the_area_holds_the_true_one():
    rng, missed, widths = np.random.default_rng(11), 0, []
    for _ in range(40):
        curve = np.sort(rng.uniform(0.6, 0.99, len(LENGTHS)))[::-1]
        value, low, high = searched(curve, rng).area()
        true = np.trapezoid(curve, np.log(LENGTHS)) / np.log(LENGTHS[-1] / LENGTHS[0])
        missed += not low <= true <= high
        assert low <= value <= high
        widths.append(high - low)
    assert missed <= 2
    assert np.median(widths) < 0.5


@pytest.mark.parametrize(("values", "name"), [
    ({"lengths": [900]}, "lengths"), ({"lengths": [900, 900]}, "lengths"),
    ({"threshold": 120}, "threshold"), ({"confidence": 1}, "confidence"),
    ({"share": 0}, "share"), ({"seed": -1}, "seed"), ({"tasks": "nihah"}, "tasks"),
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
    out = capsys.readouterr().out
    assert out.startswith("Effective length ")
    assert str(tmp_path / "effective.json") in out
    assert main(["model=r,engine=reference", "--lengths", "a,b"]) == 2
    assert "lengths" in capsys.readouterr().err
