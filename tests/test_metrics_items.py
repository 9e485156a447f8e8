"""Measures of lists: whole items, in any order, each once, against a reading of our own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib.metrics.matches import (
    exact_items,
    item_precision,
    item_recall,
    over_answering,
    recall,
)

NUMBERS = st.integers(1_000_000, 9_999_999).map(str)
WORDS = st.text("abcdefghijklmnopqrstuvwxyzæøå", min_size=3, max_size=9).filter(
    lambda word: word not in ("and", "og")
)
VARIABLES = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=5, max_size=5)
UUIDS = st.uuids(version=4).map(str)
PAIRS = st.tuples(WORDS, WORDS).map("-".join)
LISTS = st.sampled_from([NUMBERS, WORDS, VARIABLES, UUIDS, PAIRS]).flatmap(
    lambda kind: st.lists(kind, min_size=2, max_size=6, unique=True)
)


def wrote(items: list[str], form: str) -> str:
    if form == "numbered":
        return "\n".join(f"{place}. {item}" for place, item in enumerate(items, 1))
    if form == "lines":
        return "\n".join(items)
    if form == "Danish":
        return f" {', '.join(items[:-1])} og {items[-1]}."
    return f" {', '.join(items[:-1])}, and {items[-1]}."


FORMS = st.sampled_from(["numbered", "lines", "Danish", "English"])


@given(LISTS, FORMS, st.randoms())
def test_order_form_and_repetition_do_not_count(items, form, rng):
    said = items * 2
    rng.shuffle(said)
    assert exact_items(wrote(said, form), items) == 1
    assert over_answering(wrote(said, form), items) == 0


@given(LISTS, FORMS)
def test_one_item_too_many_costs_precision_and_one_too_few_recall(items, form):
    *wanted, _ = items
    answer, count = wrote(items, form), len(wanted)
    assert item_recall(answer, wanted) == recall(answer, wanted) == 1
    assert item_precision(answer, wanted) == pytest.approx(count / (count + 1))
    assert exact_items(answer, wanted) == 0
    assert over_answering(answer, wanted) == 1
    assert item_recall(wrote([*wanted, wanted[0]], form), items) == pytest.approx(
        count / (count + 1)
    )


@given(st.lists(NUMBERS, min_size=1, max_size=4, unique=True), st.integers(0, 99_999))
def test_a_number_that_runs_on_is_another_number(numbers, more):
    answer = ", ".join(f"{number}{more}" for number in numbers)
    # RULER's rule finds each of them.
    assert recall(answer, numbers) == 1
    assert item_recall(answer, numbers) == 0
    assert item_precision(answer, numbers) == 0


@given(st.lists(NUMBERS, max_size=5, unique=True), st.text("0123456789 ,.og\n", max_size=60))
def test_numbers_as_another_reader_counts_them(numbers, answer):
    """All runs of at least seven digits, and the references where no digit or letter goes on."""
    runs = {run for run in re.split(r"\D+", answer) if len(run) >= 7}
    alone = {run for run in re.split(r"[^\w]+", answer) if run in numbers}
    said = (runs - {*numbers}) | alone
    right = len(alone)
    assert item_recall(answer, numbers) == (right / len(numbers) if numbers else 0)
    if numbers:
        assert item_precision(answer, numbers) == pytest.approx(right / len(said) if said else 0)
        assert exact_items(answer, numbers) == (said == {*numbers})
        assert over_answering(answer, numbers) == (len(said) > len(numbers))


def test_an_item_ends_where_no_letter_digit_or_hyphen_goes_on():
    for answer in ("lamp-door", "red-lamp", "lamps", "lamp1", "lamp_"):
        assert item_recall(answer, ["lamp"]) == 0
    assert item_recall("(lamp).", ["lamp"]) == 1
