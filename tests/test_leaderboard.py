"""The published table, recomputed with exact fractions, and its contradictions."""

from __future__ import annotations

import csv
import math
from fractions import Fraction

import pytest

from book import leaderboard
from conftest import ROOT, shared

pd = pytest.importorskip("pandas")

FACTS = ROOT / "book" / "data" / "published_ruler.csv"
LENGTHS = [str(length) for length in leaderboard.LENGTHS]


@pytest.fixture(scope="module")
def table():
    return leaderboard.read_table(FACTS)


def raw():
    with FACTS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_has_the_published_numbers():
    """All 44 models of the shared file, cell by cell."""
    with shared("published_ruler.csv").open(encoding="utf-8", newline="") as file:
        theirs = list(csv.DictReader(file))
    assert len(theirs) == 44
    ours = {(row["model"], row["size"]): row for row in raw()}
    for row in theirs:
        known = ours[row["model"], row["size"]]
        assert {name: known[name] for name in row} == row


def exact(row):
    """Return the plain, rising and falling averages as fractions."""
    values = [Fraction(row[name]) for name in LENGTHS if row[name] != "-"]
    k = len(values)
    rising = sum(place * value for place, value in enumerate(values, 1))
    falling = sum(place * value for place, value in zip(range(k, 0, -1), values, strict=True))
    whole = Fraction(k * (k + 1), 2)
    return sum(values) / k, rising / whole, falling / whole


def test_every_average_is_exact(table):
    made = leaderboard.recomputed(table)
    for (_, row), printed in zip(made.iterrows(), raw(), strict=True):
        for name, value in zip(("Avg.", "wAvg. (inc)", "wAvg. (dec)"), exact(printed), strict=True):
            assert row[name] == pytest.approx(float(value), abs=1e-9)


def test_contradictions_of_the_table_are_found(table):
    """Read by hand from the published table."""
    found = leaderboard.contradictions(table)
    lengths = {model: notes[0] for model, notes in found.items() if "length" in notes[0]}
    assert lengths == {
        model: f"effective length printed as {printed}, recomputed {again}"
        for model, printed, again in (
            ("Qwen3-14B", ">128K", "64K"), ("Qwen3-32B", ">128K", "64K"),
            ("Qwen2.5-7B-Instruct-1M", ">128K", "64K"), ("Qwen3-8B", "64K", "32K"),
            ("Qwen3-4B", "64K", "32K"), ("EXAONE-4.0-1.2B", "32K", "16K"),
        )
    }  # fmt: skip
    assert found["Qwen2.5-14B-Instruct-1M"] == ["Avg. printed as 95.7, recomputed 95.20"]
    assert sum(map(len, found.values())) == 13


def test_facts_are_of_models_of_the_table(table):
    """Every row has a source, and sizes are those that RULER's table prints."""
    facts = leaderboard.facts_of(ROOT / "book" / "data" / "model_facts.csv")
    joined = leaderboard.recomputed(table).merge(facts, "left", "model")
    assert {*facts["model"]} <= {*joined["model"]}
    assert facts["source"].str.startswith("https://").all()
    assert joined["model"].tolist() == leaderboard.names(table).tolist()
    for size, whole, used in zip(
        table["size"], joined["parameters"], joined["active"], strict=True
    ):
        # "39B/141B": those used for a token, and all.
        numbers = [float(number.rstrip("B")) for number in size.split("/") if number]
        if numbers and not math.isnan(whole):
            assert whole == pytest.approx(numbers[-1], rel=0.15)
        if len(numbers) == 2:
            assert used == pytest.approx(numbers[0], rel=0.15)
