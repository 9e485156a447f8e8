"""Measures: RULER's formula to its last digit, letters however encoded."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rulerlib import metrics


def string_match(preds, refs, whole=True):
    """RULER's two rules: the share of the references, or whether there is one of them."""
    score = sum(
        [
            (sum if whole else max)([1.0 if r.lower() in pred.lower() else 0.0 for r in ref])
            / (len(ref) if whole else 1)
            for pred, ref in zip(preds, refs, strict=True)
        ]
    ) / len(preds) * 100  # fmt: skip
    return round(score, 2)


def postprocess(pred):
    """Control characters become newlines, as the script does before it scores."""
    return "".join("\n" if ord(mark) < 32 else mark for mark in pred.strip()).strip()


LETTERS = "aAbBæÆøØåÅéÉ0123 -.,:\n\t"
references = st.lists(st.text("abæøåé019-", min_size=1, max_size=3), min_size=1, max_size=5)
records = st.lists(
    st.tuples(st.text(LETTERS, max_size=20), references), min_size=1, max_size=12
)  # fmt: skip


def percent(metric, pairs):
    return round(sum(metric(pred, refs) for pred, refs in pairs) / len(pairs) * 100, 2)


@given(records)
@example([("\x00 Tallene er\x1b12\x0034.", ["12", "34", "1234"])])
def test_recall_and_part_match_are_rulers_formula(pairs):
    preds = [postprocess(pred) for pred, _ in pairs]
    refs = [refs for _, refs in pairs]
    assert percent(metrics.recall, pairs) == string_match(preds, refs)
    assert percent(metrics.part_match, pairs) == string_match(preds, refs, whole=False)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize("other", ["NFC", "NFD"])
@pytest.mark.parametrize("word", ["rødgrød", "Ærø", "blåbærøl", "ÅRHUS", "crème brûlée"])
def test_letters_match_however_encoded(word, form, other):
    pred = unicodedata.normalize(form, f"Ordet er {word.upper()}, ikke andet.")
    assert metrics.all_match(pred, [unicodedata.normalize(other, word)]) == 1


@pytest.mark.parametrize(
    ("pred", "refs", "wanted"),
    [
        ("1234567", ["1234567"], 1),
        ("123456", ["1234567"], 0),
        ("1234567", ["1234567", "7654321"], 0),
        ("Aarhus", ["Århus"], 0),
        ("rodgrod", ["rødgrød"], 0),
        ("１２３", ["123"], 1),  # full-width digits are the same digits to NFKC
        ("Straße", ["STRASSE"], 1),
        ("", ["1"], 0),
        ("12\x0034", ["1234"], 0),  # a control character separates words
    ],
)
def test_all_match_by_hand(pred, refs, wanted):
    assert metrics.all_match(pred, refs) == wanted


@pytest.mark.parametrize("rule", metrics.MEASURES.values(), ids=metrics.MEASURES)
def test_nothing_asked_for_is_nothing_found(rule):
    assert rule("anything", []) == 0
