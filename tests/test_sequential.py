"""Sequential plans: fair bets counted one by one, drawn answers, and runs that stop and go on."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from fractions import Fraction
from types import SimpleNamespace

import pytest
from helpers_model import Parrot, tree
from helpers_store import die_at
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from conftest import ROOT, python
from rulerlib import analysis, sequential
from rulerlib.errors import DataError, ParameterError
from rulerlib.models import Generation
from rulerlib.progress import Progress
from rulerlib.runs import Run
from rulerlib.sequential import LOOK, confidence_sequence, looks, side, tally
from rulerlib.store.cell import Cell


def winnings(answers, rates):
    """What 1 becomes by betting on the answers one by one, in the order in which they come.

    Half of it bets on each task by itself, half on all of them as if they were one. The answers
    are pairs of a task and 0 or 1, and ``rates`` the claimed chance of 1 of each task.
    """
    halves = [Fraction(1, 2), Fraction(1, 2)]
    seen = [{}, {}]
    for task, right in answers:
        for half, name in enumerate((task, None)):
            total, count = seen[half].get(name, (0, 0))
            expected = (total + Fraction(1, 2)) / (count + 1)
            claimed = Fraction(rates[task])
            halves[half] *= expected / claimed if right else (1 - expected) / (1 - claimed)
            seen[half][name] = total + right, count + 1
    return sum(halves)


def tallied(answers, tasks):
    own = [[right for task, right in answers if task == name] for name in range(tasks)]
    return [(float(sum(each)), len(each)) for each in own]


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_one_rate_is_refuted_when_a_bet_against_it_has_won_twentyfold(answers, rate):
    pairs = [(0, right) for right in answers]
    low, high = confidence_sequence(tallied(pairs, 1))
    won = float(winnings(pairs, [rate]))
    if abs(won - 20) > 1e-6:
        assert (low <= rate <= high) == (won < 20)
    for end in (low, high):
        if 0 < end < 1:
            assert float(winnings(pairs, [end])) == pytest.approx(20, rel=1e-6)


def likelihood(total, count, rate):
    """The logarithm of the likelihood of a task's answers."""
    terms = [(total, rate), (count - total, 1 - rate)]
    return sum(number * math.log(chance) for number, chance in terms if number)


def lowest(drawn, weights, floor):
    """The lowest mean of rates at which the answers are as likely as ``floor``, task by task.

    The likelihood is concave, so the best that the other rates can add is a convex function of
    the first one, and Brent's search cannot miss the least value of a convex function.
    """
    (total, count), *others = drawn
    most = total / count if count else 0.0
    rest = sum(likelihood(right, asked, right / asked) for right, asked in others if asked)
    low, high = 0.0, most
    for _ in range(44):
        middle = (low + high) / 2
        if likelihood(total, count, middle) + rest < floor:
            low = middle
        else:
            high = middle
    if not others:
        return weights[0] * high

    def mean(rate):
        left = floor - likelihood(total, count, rate)
        return weights[0] * rate + lowest(others, weights[1:], left)

    found = minimize_scalar(mean, bounds=(high, most), method="bounded", options={"xatol": 1e-6})
    return min(found.fun, mean(high), mean(most))


@settings(max_examples=12)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=6, max_size=60),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_the_ends_of_a_mean_are_those_that_a_search_over_all_rates_finds(answers, shares):
    drawn = tallied(answers, 3)
    weights = [share / sum(shares) for share in shares]
    # Refuted are the rates at which the answers are twenty times less likely than by the bets.
    floor = math.log(winnings(answers, [Fraction(1, 2)] * 3) / 20) - len(answers) * math.log(2)
    mirrored = [(count - total, count) for total, count in drawn]
    ends = lowest(drawn, weights, floor), 1 - lowest(mirrored, weights, floor)
    assert confidence_sequence(drawn, weights) == pytest.approx(ends, abs=1e-7)


def test_nothing_is_known_of_nothing_and_little_where_a_task_was_not_asked():
    assert confidence_sequence([(0.0, 0)]) == (0, 1)
    low, high = confidence_sequence([(40.0, 40), (0.0, 0)])
    assert low == pytest.approx(confidence_sequence([(40.0, 40)])[0] / 2, abs=0.01)
    assert high == 1
    for wrong in ((-1.0, 5), (6.0, 5)):
        with pytest.raises(ParameterError, match="tallies"):
            confidence_sequence([wrong])


@given(st.integers(1, 600), st.integers(1, 40))
def test_looks_rise_to_the_end_in_steps(most, step):
    counts = [*looks(most, step)]
    assert counts[-1] == most
    assert all(count % step == 0 for count in counts[:-1])
    gaps = [after - before for before, after in itertools.pairwise([0, *counts])]
    assert all(gap > 0 for gap in gaps)
    assert all(gap >= LOOK for gap in gaps[:-1])


class Finder(Parrot):
    """An engine that finds a share of single needles, always the same ones."""

    def __init__(self, rate, **options):
        super().__init__(batch=4, **options)
        self.rate = rate

    def generate(self, requests):
        for position, request in enumerate(requests):
            self.asked.append(request.prompt)
            drawn = int.from_bytes(hashlib.sha256(request.prompt.encode()).digest()[:4], "big")
            value = re.search(r"is: (\d{7})\.", request.prompt)[1]
            yield position, Generation(value if drawn < self.rate * 2**32 else "0", 3, True)


def made(folder, rate, **options):
    defaults = {"tasks": "niah_single_1,niah_single_2", "length": 600, "num_samples": 60}
    defaults |= {"language": "en", "sequential": True, "num_lengths": 1}
    return Run(output=str(folder), loaded=Finder(rate), **{**defaults, **options})


def counted(run):
    return {cell.length: run.answers(cell).read_bytes().count(b"\n") for cell in run.cells}


@pytest.mark.parametrize(("rate", "verdict"), [(1.0, "above"), (0.4, "below"), (0.85, None)])
def test_a_run_ends_where_it_is_clear(tmp_path, rate, verdict):
    run = made(tmp_path, rate, num_lengths=2)
    run.predict()
    asked = {
        cell: [*map(json.loads, run.answers(cell).read_text("utf-8").splitlines())]
        for cell in run.cells
    }
    for length in (300, 600):
        own = [records for cell, records in asked.items() if cell.length == length]
        used = len(own[0])
        assert [[each["index"] for each in records] for records in own] == [[*range(used)]] * 2
        right = [[float(each["outputs"][0] in each["pred"]) for each in records] for records in own]
        # Step by step: at every look before the last it was not clear.
        steps = [*looks(60, 4)]
        said = [side([(sum(each[:at]), at) for each in right], 85.6) for at in steps if at <= used]
        assert said == [None] * (len(said) - 1) + [verdict]
        assert (used == 60) == (verdict is None)
    table = analysis.overview(analysis.scores(run.predictions()))
    assert table["n"].tolist() == [2 * count for count in counted(run).values()]
    assert table["planned"].tolist() == [120, 120]


def test_a_stopped_run_goes_on_by_another_plan(tmp_path):
    run = made(tmp_path, 1.0)
    paths = run.predict()
    noted = json.loads(paths[0].with_suffix(".settings.json").read_text("utf-8"))["sequential"]
    assert noted == {"threshold": 85.6, "planned": 60}
    before = paths[0].read_bytes()
    again = made(tmp_path, 1.0)
    again.predict()
    assert again.loaded.asked == []
    whole = made(tmp_path, 1.0, sequential=False)
    whole.predict()
    assert paths[0].read_bytes().startswith(before)
    assert counted(whole) == {600: 60}
    assert "sequential" not in json.loads(paths[0].with_suffix(".settings.json").read_text("utf-8"))
    assert "planned" not in analysis.scores(whole.predictions())
    # What stands there is enough, and the file stays what it is: one of a fixed design.
    made(tmp_path, 1.0).predict()
    assert counted(whole) == {600: 60}


def asking(folder, step):
    """What a process does that is shot before one of its steps with files."""
    run = made(folder, 0.97, num_samples=40)
    run.make_data()
    die_at(step, run.answers(run.cells[0]).parent)
    run.predict()


def test_killed_and_resumed_it_stops_at_the_same_sample_with_the_same_bytes(tmp_path):
    run = made(tmp_path / "whole", 0.97, num_samples=40)
    run.predict()
    whole = tree(run.root)
    assert counted(run)[600] < 40
    for step in (9, 27):
        folder = tmp_path / str(step)
        code = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r}); import test_sequential"
        ended = python(f"{code}; test_sequential.asking({str(folder)!r}, {step})")
        assert ended.returncode == -9, ended.stderr
        resumed = made(folder, 0.97, num_samples=40)
        resumed.predict()
        assert tree(resumed.root) == whole


def test_contexts_are_one_draw_each_and_tasks_may_end_before_others(tmp_path):
    """Rounds of whole contexts; the answers to one context count as their mean."""
    asked = []
    lines = [(index, index // 3, "A" if index % 3 else "-") for index in range(30)]
    path = tmp_path / "vt.jsonl"
    text = "".join(
        json.dumps({"index": index, "outputs": ["A"], "pred": said, "others": {"context_id": own}})
        + "\n"
        for index, own, said in lines
    )
    path.write_text(text, "utf-8")
    long, short = (Cell("m", "vt", "en", 512, seed=seed) for seed in (1, 2))
    run = SimpleNamespace(
        threshold=50.0, count=lambda cell: 30 if cell is long else 12, step=lambda cell: 3,
        ask=lambda cell, count, plan: asked.append((count, plan["planned"])),
        answers=lambda cell: path, work=lambda cells: float(len(cells)),
    )  # fmt: skip
    assert sequential._answered(run, long, 30) == (pytest.approx(20 / 3), 10)
    assert tally([0, 1, 1] * 10, [index // 3 for index in range(30)])[1] == 10
    bar = Progress(2.0, "", quiet=True)
    sequential.ask_in_turn(run, [long, short], bar)
    assert asked == [(12, 30), (12, 12), (24, 30), (12, 12), (30, 30), (12, 12)]
    assert bar.done == pytest.approx(2)


@pytest.fixture
def stopped(tmp_path):
    run = made(tmp_path, 0.97, num_lengths=2)
    run.predict()
    return SimpleNamespace(run=run, scores=analysis.scores(run.predictions()))


def test_tables_have_the_interval_that_holds_wherever_one_stops(stopped):
    table = stopped.scores
    for row in analysis.accuracy(table).to_dict("records"):
        own = row["mean"] * row["n"], row["n"]
        assert (row["low"], row["high"]) == pytest.approx(confidence_sequence([own]))
        assert row["planned"] == 60
    averages = analysis.by_length(table)
    for row in averages.to_dict("records"):
        part = analysis.of_measure(table[table["length"] == row["length"]], "ruler")
        values = part.groupby("task")["value"]
        held = confidence_sequence([*zip(values.sum(), values.size(), strict=True)])
        assert (row["low"], row["high"]) == pytest.approx(tuple(100 * end for end in held))
    effective = analysis.effective_lengths(table, resamples=400)
    assert effective["effective"].tolist() == ["≥600", "≥600"]
    assert effective["low"].tolist()[0] == "≥600"
    assert analysis.overview(table)["planned"].tolist() == [120, 120]
    fixed = analysis.by_length(table.drop(columns="planned"))
    assert (fixed["low"] > averages["low"]).all(), "one look is worth more than many"
    assert analysis.accuracy(table, by=("model", "language"))["planned"].tolist() == [240]


def test_a_plan_that_no_run_has_written_is_named(stopped):
    path = stopped.run.answers(stopped.run.cells[0]).with_suffix(".settings.json")
    for wrong in ({"planned": 0}, {"planned": "x"}, [60], {}):
        values = json.loads(path.read_text("utf-8")) | {"sequential": wrong}
        values.pop("sha256", None)
        path.write_text(json.dumps(values), "utf-8")
        with pytest.raises(DataError, match="sequential"):
            [*analysis.read_predictions(stopped.run.root)]
