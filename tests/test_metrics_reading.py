"""Measures of reading comprehension: equal to inspect_ai and to lm-eval, but for what is named."""

from __future__ import annotations

import itertools
import re
import string
from collections import Counter

import helpers_reading
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib import languages
from rulerlib.metrics import DROP, one_form
from rulerlib.metrics.short_answers import drop_em, drop_f1, em_norm, f1_words, lists


def test_drop_is_that_of_lm_eval():
    """Of several spans, lm-eval gets each way to read the answer as a list."""
    theirs = helpers_reading.lm_eval_drop() or pytest.skip("needs the files of lm_eval")
    for pred, golds in helpers_reading.draw(1_500):
        em = f1 = 0.0
        for gold in golds:
            for way in lists(pred, gold=gold) if len(gold) > 1 else [[pred]]:
                values = theirs.process_results({"answers": [gold]}, way)
                em, f1 = max(em, values["em"]), max(f1, values["f1"])
        assert (drop_em(pred, golds), drop_f1(pred, golds)) == (em, f1), (pred, golds)


@pytest.mark.parametrize(
    ("pred", "golds", "theirs", "ours"),
    [
        # A minus is a hyphen there, and parts words.
        ("-5", ["5"], (1, 1), (0, 0)),
        ("5", [("-5 degrees",)], (0, 0.67), (0, 0)),
        # The official script removes the decimal mark of a number with another mark.
        ("$3.5", ["35"], (1, 1), (0, 0)),
        ("1,234.5", ["1234.5"], (0, 0), (1, 1)),
        # Python reads these as numbers.
        ("Infinity", ["inf"], (1, 1), (0, 0)),
        # A text is one span there.
        ("Denver, Oakland", [("Oakland", "Denver")], (0, 0.33), (1, 1)),
        ("Denver, Oakland", ["Oakland, Denver"], (0, 1), (0, 1)),
        # Only ASCII punctuation is stripped there.
        ("“Ribe”…", ["Ribe"], (0, 0), (1, 1)),
        # The official script has no number words.
        ("twelve", ["12"], (0, 0), (1, 1)),
        ("Years' War", ["Seven Years' War"], (0, 0.8), (0, 0)),
        # Nothing is left of a gold without its article.
        ("", ["A"], (1, 1), (0, 0)),
        # Only a space parts words.
        ("5\nyards", ["5 yards"], (0, 0), (1, 1)),
        # The same spans, but not as often.
        ("red, red, blue", [("red", "blue", "blue")], (0, 0.22), (0, 0.67)),
    ],
)
def test_what_lm_eval_has_otherwise(pred, golds, theirs, ours):
    assert (drop_em(pred, golds), drop_f1(pred, golds)) == ours
    lm_eval = helpers_reading.lm_eval_drop()
    if lm_eval is not None:
        answers = [gold if isinstance(gold, tuple) else (gold,) for gold in golds]
        values = lm_eval.process_results({"answers": answers}, [pred])
        assert (values["em"], values["f1"]) == theirs
        assert lm_eval.get_metrics(["red", "red", "blue"], ("red", "blue", "blue")) == (1, 0.67)


# Language, what a model wrote, and the answer in it (None: no label, all is judged).
ANSWERS = [
    ("en", "5 - 2 = 3.\nANSWER: 3", "3"),
    ("en", "**Answer**:\n\n**20**", "20"),
    ("en", "Answer\uff1a20\n\nAnswer:", "20"),
    ("en", "Answer: 12\nNo, I forgot one.\nAnswer: 13", "13"),
    ("en", "**Answer (in points):**\n20", "20"),
    ("en", r"Answer: \boxed{\text{20 yards}}.", "20 yards."),
    ("en", r"Answer: \(12{,}500\,\mathrm{yards}\)", "12,500\u2009yards"),
    ("en", "The answer is 20", None),
    ("en", "Answer:", None),
    ("en", "Answer: Donte\u0301 \u22125\u20136", "Donté -5-6"),
    ("da", "Facit.\nSvaret: 12", "12"),
    ("da", "Ansvar: 12", None),
    ("de", "Die Antwort: 12", "12"),
]


@pytest.mark.parametrize(("language", "text", "answer"), ANSWERS)
def test_the_answer_is_what_follows_the_last_label(language, text, answer):
    assert DROP.answer(text, language) == (one_form(text) if answer is None else answer)


AND = {"en": "and", "da": "og", "de": "und", "nb": "og", "nl": "en", "sv": "och"}


@pytest.mark.parametrize("language", AND)
def test_names_with_and_stay_whole_in_a_list(language):
    pack, joint = languages.load(language), AND[language]
    gold = ["UK", "O'Neill", f"Trinidad {joint} Tobago", "Washington, D.C."]
    for spans in itertools.permutations(gold):
        for text in (pack.join(spans), f" {joint} ".join(spans), ", ".join(spans)):
            assert drop_em(text, [gold], language) == drop_f1(text, [gold], language) == 1, text
    # An item too many, one too few, and another name.
    for spans, f1 in [
        ([*gold, "US"], 0.8),
        (gold[:3], 0.75),
        ([*gold[:3], f"Ribe {joint} Skive"], 0.75),
    ]:
        text = ", ".join(spans)
        assert (drop_em(text, [gold], language), drop_f1(text, [gold], language)) == (0, f1), text


def squad(text: str) -> str:
    """The normal form of SQuAD's published script (Rajpurkar et al. 2016)."""
    text = "".join(mark for mark in text.lower() if mark not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


# Without number words such as "ten".
wordy = st.text("aAthe !,.'-(ø", max_size=20)


@given(wordy.filter(squad), st.lists(wordy.filter(squad), min_size=1, max_size=3))
def test_without_numbers_it_is_squads(pred, golds):
    assert em_norm(pred, golds) == any(squad(pred) == squad(gold) for gold in golds)
    best = 0.0
    for gold in golds:
        said, wanted = squad(pred).split(), squad(gold).split()
        common = sum((Counter(said) & Counter(wanted)).values())
        if common:
            precision, recall = common / len(said), common / len(wanted)
            best = max(best, 2 * precision * recall / (precision + recall))
    assert f1_words(pred, golds) == pytest.approx(best)


UNITS = "nul en to tre fire fem seks syv otte ni ti elleve tolv tretten fjorten femten seksten"
UNITS = [*UNITS.split(), "sytten", "atten", "nitten"]
TENS = ["", "", "tyve", "tredive", "fyrre", "halvtreds", "tres", "halvfjerds", "firs", "halvfems"]


def in_danish(number: int, joint: str = " ") -> str:
    """A number in words, by the rules of the language and not by the pack."""
    if number >= 100:
        hundreds = "et" if number < 200 else UNITS[number // 100]
        rest = f"{joint}og{joint}{in_danish(number % 100, joint)}" if number % 100 else ""
        return f"{hundreds}{joint}hundrede{rest}"
    if number < 20:
        return UNITS[number]
    ten = TENS[number // 10]
    return f"{UNITS[number % 10]}og{ten}" if number % 10 else ten


def test_danish_number_words():
    plain = languages.load("da").numbers.plain
    for number in range(2, 1000):
        words = in_danish(number)
        assert plain(f"Der var {words.upper()}.") == f"Der var {number}.", words
        assert plain(in_danish(number, "")) == str(number), in_danish(number, "")


@pytest.mark.parametrize(
    ("language", "text", "plain"),
    [
        ("en", "1,234.50 yards", "1234.50 yards"),
        ("en", "one hundred and four men and ten women", "104 men and 10 women"),
        ("en", "two thousand three hundred forty-one", "2341"),
        ("en", "an eighteen-year-old", "an 18-year-old"),
        ("en", "1886-05-03", "3 May 1886"),
        ("da", "12.500,25 kr.", "12500.25 kr."),
        ("da", "halvanden", "1.5"),
        ("da", "fem og tyve", "5 og 20"),
        ("da", "otteogtyve tusind og femten", "28015"),
        ("da", "et tusind syv hundrede og to", "1702"),
        ("da", "kl. 12.30", "kl. 12.30"),
        ("da", "Én hund", "1 hund"),
        ("da", "3/5 1886", "3 maj 1886"),
    ],
)
def test_numbers_and_dates_by_hand(language, text, plain):
    assert languages.load(language).numbers.plain(text) == plain
