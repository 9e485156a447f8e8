"""Measures of reading comprehension: equal to inspect_ai and to lm-eval, but for what is named."""

from __future__ import annotations

import re
import string
from collections import Counter

import helpers_reading
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import tries
from rulerlib import languages
from rulerlib.metrics.short_answers import (
    drop_em,
    drop_f1,
    em_norm,
    em_raw,
    f1_words,
    format_violation,
    lists,
)
from rulerlib.scoring import DROP, one_form

PAIRS = 2_500


def _is_float(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def tokens(text: str) -> list[str]:
    return re.split(r"[\s-]+", text)


# What lm-eval gets wrong, and how to see that an answer or a gold gives it the occasion.
WRONG = {
    "sign": lambda text: re.search(r"(?<![\w-])-\$?\.?\d", text),
    "decimal mark": lambda text: any(
        re.search(r"\d\.\d", token) and not _is_float(token) for token in tokens(text)
    ),
    "words": lambda text: any(
        re.fullmatch(r"(?i)(nan|inf|infinity|1e999)\W*", token) for token in tokens(text)
    ),
    "nothing left": lambda text: text.strip() and any(
        re.fullmatch(r"(?i)(\W|\b(a|an|the)\b)*", piece) for way in lists(text) for piece in way
    ),
    "white space": lambda text: re.search(r"[^\S ]", text.strip()),
}  # fmt: skip


def excuses(pred: str, golds: list[tuple[str, ...]]) -> list[str]:
    """What may make lm-eval's value of a pair another one than ours."""
    texts = [pred, *(span for gold in golds for span in gold)]
    found = [name for name, occasion in WRONG.items() if any(map(occasion, texts))]
    repeated = any(len({span.lower() for span in gold}) < len(gold) for gold in golds)
    return [*found, "repeated spans"] if repeated else found


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.long)])
def drawn(request):
    if request.param:
        return helpers_reading.draw(tries(10_000), seed=20)
    return helpers_reading.draw(PAIRS)


def test_drop_is_that_of_lm_eval(drawn):
    """Where an answer is a list, lm-eval is handed each way to read it, for it reads none."""
    theirs = helpers_reading.lm_eval_drop() or pytest.skip("needs the files of lm_eval")
    equal = excused = 0
    for pred, golds in drawn:
        em = f1 = 0.0
        for gold in golds:
            for way in lists(pred) if len(gold) > 1 else [[pred]]:
                values = theirs.process_results({"answers": [gold]}, way)
                em, f1 = max(em, values["em"]), max(f1, values["f1"])
        if (drop_em(pred, golds), drop_f1(pred, golds)) == (em, f1):
            equal += 1
        else:
            assert excuses(pred, golds), (pred, golds, em, f1)
            excused += 1
    assert equal + excused == len(drawn)
    assert 0 < excused < 0.05 * len(drawn)


@pytest.mark.parametrize(
    ("pred", "golds", "theirs", "ours"),
    [
        # A minus is a hyphen there, and parts words.
        ("-5", ["5"], (1, 1), (0, 0)),
        ("(-5)", ["-5"], (1, 1), (1, 1)),
        ("5", [("-5 degrees",)], (0, 0.67), (0, 0)),
        ("10-5", ["10 5"], (1, 1), (1, 1)),
        # A number loses its decimal mark there where any other mark stands at it.
        ("$3.5", ["35"], (1, 1), (0, 0)),
        ("3.5%", ["3.5"], (0, 0), (1, 1)),
        ("It was 3.5.", ["3.5"], (0, 0), (0, 0.5)),
        ("1,234.5", ["1234.5"], (0, 0), (1, 1)),
        ("1,234.5", ["12345"], (1, 1), (0, 0)),
        # Python reads these as numbers.
        ("Infinity", ["inf"], (1, 1), (0, 0)),
        ("Ward", ["Infinity Ward"], (0, 0), (0, 0.67)),
        ("1e999", ["inf"], (1, 1), (0, 0)),
        # A text is one span there.
        ("Denver, Oakland", [("Oakland", "Denver")], (0, 0.33), (1, 1)),
        ("Denver and Oakland", [("Oakland", "Denver")], (0, 0.25), (1, 1)),
        ("Denver, Oakland", ["Oakland, Denver"], (0, 1), (0, 1)),
        # Nothing is left of a gold without its article.
        ("", ["A"], (1, 1), (0, 0)),
        ("the", ["A"], (1, 1), (0, 0)),
        ("A.", ["A"], (1, 1), (1, 1)),
        # Only a space parts words.
        ("5\nyards", ["5 yards"], (0, 0), (1, 1)),
        ("5\u00a0yards", ["5"], (0, 0), (0, 0.67)),
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


# What we find otherwise than inspect_evals, each on purpose.
LAST = "the last label counts, not the first"
LANGUAGE = "the label may be the language's own"
MARKED = "marks may stand at both sides of the colon, which may be a wide one"
FORM = "entities, decomposed letters and minus signs are brought to one form"
WORD = "a label is a word of its own"

# Language, what a model wrote, the answer in it (None: no label, all is judged), a gold, and why
# inspect_evals judges it otherwise.
ANSWERS = [
    ("en", "Answer: 20", "20", "20", None),
    ("en", "answer: 20", "20", "20", None),
    ("en", "ANSWER: 20", "20", "20", None),
    ("en", "Answer : 20", "20", "20", None),
    ("en", "Answer:20", "20", "20", None),
    ("en", "5 - 2 = 3.\nAnswer: 3", "3", "3", None),
    ("en", "Final Answer: 20", "20", "20", None),
    ("en", "**Final Answer:** 20", "20", "20", None),
    ("en", "So, Answer: 20", "20", "20", None),
    ("en", "1. Answer: 20", "20", "20", None),
    ("en", "- Answer: 20", "20", "20", None),
    ("en", "> Answer: 20", "20", "20", None),
    ("en", "### Answer: 20", "20", "20", None),
    ("en", "| Answer: 20 |", "20 |", "20", None),
    ("en", "(Answer: 20)", "20)", "20", None),
    ("en", "FinalAnswer: 20", "20", "20", None),
    ("en", "_Answer:_ 20", "20", "20", None),
    ("en", "The answer: 20 yards", "20 yards", "20 yards", None),
    ("en", "Answer:\n20", "20", "20", None),
    ("en", "Answer:\r\n20\r\n", "20", "20", None),
    ("en", "**Answer:**\n\n**20**", "20", "20", MARKED),
    ("en", "Answer: \n\n  20 yards\nBecause.", "20 yards", "20 yards", None),
    ("en", "### Answer:\n- 20", "- 20", "20", None),
    ("en", "Answer: **20**", "20", "20", None),
    ("en", "Answer: `Ribe`.", "Ribe`.", "Ribe", None),
    ("en", "Answer: Ribe, Skive", "Ribe, Skive", "Ribe, Skive", None),
    ("en", "Answer: 20\nThat was all.", "20", "20", None),
    ("en", "Answer: 20\n\nAnswer:", "20", "20", None),
    ("en", "Answer: 12:30", "12:30", "12:30", None),
    ("en", "The answer is 20", None, "The answer is 20", None),
    ("en", "20", None, "20", None),
    ("en", "", None, "20", None),
    ("en", "Answer:", None, "20", None),
    ("en", "Answer 20", None, "20", None),
    ("en", "Answer: 12\nNo, I forgot one.\nAnswer: 13", "13", "13", LAST),
    ("en", "Answer: the answer: 20", "20", "20", LAST),
    ("en", "Answer:\nAnswer: 20", "20", "20", LAST),
    ("en", 'I end with "Answer: $ANSWER".\nAnswer: 20', "20", "20", LAST),
    ("en", "Answer: 20\nIs this answer: sure?", "sure?", "20", LAST),
    ("en", "**Answer**: 20", "20", "20", MARKED),
    ("en", "__Final answer__ :\n20", "20", "20", MARKED),
    ("en", "Answer\uff1a20", "20", "20", MARKED),
    ("en", "Nonanswer: 20", None, "20", WORD),
    ("en", "Answer: Dont&#233;", "Donté", "Donté", FORM),
    ("en", "Answer: Donte\u0301", "Donté", "Donté", FORM),
    ("en", "Answer: \u22125", "-5", "-5", FORM),
    ("en", "Answer: 20\u201324", "20-24", "20 24", FORM),
    ("da", "Svar: 12", "12", "12", LANGUAGE),
    ("da", "Endeligt svar: 12", "12", "12", LANGUAGE),
    ("da", "**Svar:**\n\n12", "12", "12", LANGUAGE),
    ("da", "Answer: 12", "12", "12", None),
    ("da", "Final Answer:\n12", "12", "12", None),
    ("da", "Ansvar: 12", None, "Ansvar 12", None),
]  # fmt: skip


def their_answer(text: str) -> str:
    """What inspect_evals takes for the answer: behind the first label, in its line or below."""
    small, at = text.lower(), -1
    while (at := small.find("answer", at + 1)) >= 0:
        colon, mark, rest = text[at + len("answer") :].partition(":")
        if mark and not colon.strip() and rest.strip():
            return rest.lstrip().split("\n")[0]
    return text


def test_53_answers_are_found_as_inspect_evals_finds_them_but_for_what_is_named():
    assert len(ANSWERS) == 53
    for language, text, answer, gold, difference in ANSWERS:
        assert DROP.answer(text, language) == (one_form(text) if answer is None else answer), text
        ours = DROP.score(text, [gold], language=language)["f1_words"]
        theirs = f1_words(their_answer(text), [gold], language)
        assert ours == theirs or difference is not None, (text, ours, theirs)


texts = st.text("aAtheæ å0123,.-\n;$%()'“ and", max_size=25)


@pytest.mark.parametrize(
    ("pred", "language", "wanted"),
    [
        ("Ribe", "en", [["Ribe"], ["Ribe"], ["Ribe"]]),
        ("A, B, and C", "en", [["A, B, and C"], ["A", "B", "C"], ["A", "B", "C"]]),
        ("A;B\nC and D", "en", [["A;B\nC and D"], ["A", "B", "C and D"], ["A", "B", "C", "D"]]),
        ("A And B", "en", [["A And B"], ["A And B"], ["A", "B"]]),
        ("A og B", "da", [["A og B"], ["A og B"], ["A", "B"]]),
        ("1,234 and 5,6", "en", [["1,234 and 5,6"], ["1,234 and 5,6"], ["1,234", "5,6"]]),
        ("1,234, 5", "en", [["1,234, 5"], ["1,234", "5"], ["1,234", "5"]]),
    ],
)
def test_a_text_is_read_as_a_list(pred, language, wanted):
    assert lists(pred, language) == wanted


def squad(text: str) -> str:
    """The normal form of SQuAD's published script (Rajpurkar et al. 2016)."""
    text = "".join(mark for mark in text.lower() if mark not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


wordy = st.text("aAthen !,.'-(ø", max_size=20)


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


@pytest.mark.parametrize(
    ("pred", "gold", "raw", "norm"),
    [
        (" Raiders\n", "Raiders", 1, 1),
        ("the raiders.", "Raiders", 0, 1),
        ("-5", "5", 0, 0),
        ("3.50", "3.5", 0, 1),
        ("3.5", "35", 0, 0),
        ("12,500", "12500", 0, 1),
        ("twelve", "12", 0, 0),
        ("the", "A", 0, 0),
        ("", "the", 0, 0),
    ],
)
def test_exact_matches_by_hand(pred, gold, raw, norm):
    assert (em_raw(pred, [gold]), em_norm(pred, [gold])) == (raw, norm)


@pytest.mark.parametrize(
    ("pred", "wanted"),
    [
        ("Raiders", ()),
        (" Raiders\n", ()),
        ("12.500", ()),
        ("Raiders!", ("final mark",)),
        ("Raiders.", ("final mark", "full stop")),
        ("St. Louis", ("full stop",)),
        ("It is 3. Or 4", ("full stop",)),
        ("Raiders\nDenver", ("line break",)),
        ("They.\r\nDid:", ("final mark", "full stop", "line break")),
    ],
)
def test_violations_of_the_format(pred, wanted):
    assert format_violation(pred) == wanted


UNITS = "nul en to tre fire fem seks syv otte ni ti elleve tolv tretten fjorten femten seksten"
UNITS = [*UNITS.split(), "sytten", "atten", "nitten"]
TENS = ["", "", "tyve", "tredive", "fyrre", "halvtreds", "tres", "halvfjerds", "firs", "halvfems"]


def in_danish(number: int, joint: str = " ") -> str:
    """A number in words, by the rules of the language and not by the pack."""
    if number >= 1000:
        rest = f"{joint}{'og ' if number % 1000 < 100 else ''}{in_danish(number % 1000, joint)}"
        thousands = "et" if number < 2000 else in_danish(number // 1000, joint)
        return f"{thousands}{joint}tusind{rest if number % 1000 else ''}"
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
    for number in [*range(1200), *range(1200, 1_000_000, 977)]:
        words = in_danish(number)
        assert plain(words) == str(number), words
        assert plain(f"Der var {words.upper()}.") == f"Der var {number}." or number == 1
    for number in range(2, 1000):
        assert plain(in_danish(number, "")) == str(number), in_danish(number, "")


@pytest.mark.parametrize(
    ("danish", "plain"),
    [
        ("3,5", "3.5"),
        ("12.500", "12500"),
        ("12.500,25 kr.", "12500.25 kr."),
        ("Det er 3,5.", "Det er 3.5."),
        ("tolv", "12"),
        ("halvanden", "1.5"),
        ("fem og tyve", "5 og 20"),
        ("tre millioner", "3 millioner"),
        ("kl. 12.30", "kl. 12.30"),
        ("192.168.1.1", "192.168.1.1"),
        ("1,2,3", "1,2,3"),
        ("En hund", "En hund"),
        ("Én hund", "1 hund"),
        ("Et.", "1"),
        ("3/5 1886", "3 maj 1886"),
        ("03.05.1886", "3 maj 1886"),
        ("1886-05-03", "3 maj 1886"),
        ("31/13 1886", "31/13 1886"),
        ("A\u030arhus", "Århus"),
    ],
)
def test_danish_numbers_and_dates_by_hand(danish, plain):
    assert languages.load("da").numbers.plain(danish) == plain
