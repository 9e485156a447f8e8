"""Search by words within an episode, held against bm25s and SQLite; and rankings made into one."""

from __future__ import annotations

import doctest
import sqlite3
import unicodedata

import pytest
from helpers_search import HOSTILE, TEXTS, WORDS, large, memory, taught
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib.memory import search
from rulerlib.memory.search import Found, Words, fuse, words_of
from rulerlib.memory.vectors import Vectors


@pytest.mark.hypothesis
def test_words_are_those_of_bm25s():
    bm25s = pytest.importorskip("bm25s")

    @settings(max_examples=60, deadline=None)
    @given(TEXTS, st.lists(st.sampled_from(WORDS), min_size=1, max_size=6, unique=True))
    def check(texts, asked):
        other = bm25s.BM25(method="robertson", k1=1.2, b=0.75)
        # Two texts more, for words that all have: bm25s has no place for an empty dictionary.
        texts = [*texts, "træ sten", "sten"]
        other.index([words_of(text) for text in texts], show_progress=False)
        known = [word for word in asked if any(word in words_of(text) for text in texts)]
        with memory(Words.tables) as store:
            found = taught(Words, store, a=texts).search("a", " ".join(asked), 100)
        ids = {at + 1 for at, text in enumerate(texts) if set(words_of(text)) & set(known)}
        assert {each.id for each in found} == ids
        if not known:
            return
        scores = other.get_scores(known)
        # Theirs lack the factor k1 + 1, and words of every second text and more count nothing,
        # where SQLite gives them a millionth.
        for each in found:
            assert each.score / 2.2 == pytest.approx(float(scores[each.id - 1]), abs=1e-5)
        assert list(found) == sorted(found, key=lambda each: (-each.score, each.id))

    check()


@pytest.fixture(scope="module")
def many():
    """Many facts in one episode, which were taught."""
    with memory(Words.tables) as store:
        yield taught(Words, store, a=[fact.text for fact in large().facts])


def test_of_many_facts_the_rarest_words_choose(many):
    words, facts = many, len(large().facts)
    for probe in large().probes:
        asked = list(dict.fromkeys(words_of(probe.text)))
        assert len(asked) * facts > search.MOST_RANKED
        whole = dict(words._ranked(1, search._any(asked), facts))
        found = words.search("a", probe.text, 50)
        assert found[0].id == max(whole, key=lambda each: (whole[each], -each))
        assert found[0].id - 1 in probe.needs
        for each in found:
            assert each.score == pytest.approx(whole[each.id], abs=1e-4)


@pytest.mark.parametrize("question", ["den i", "Den", "i i i", "I den, fandtes-aldrig"])
def test_words_that_all_facts_have_find_them_too(many, question):
    assert len(many.search("a", question, 7)) == 7


@settings(max_examples=25, deadline=None)
@given(TEXTS, TEXTS, st.sampled_from(WORDS))
def test_other_episodes_change_nothing(texts, others, word):
    question = f"Hvem var i {word}?"
    for kind in (Words, Vectors):
        with memory(kind.tables) as store:
            alone = taught(kind, store, a=texts).search("a", question, 5)
        with memory(kind.tables) as store:
            both = taught(kind, store, a=texts, b=others, c=texts)
            assert both.search("a", question, 5) == alone
            shifted = [Found(each.id + len(texts + others), each.score) for each in alone]
            assert both.search("c", question, 5) == shifted
            assert both.search("d", question, 5) == []


def test_marks_on_letters_are_kept():
    texts = ["Aen løb over.", "Åen løb over.", "Aa skrives ÆØÅ.", "Øl og ol"]
    with memory(Words.tables) as store:
        words = taught(Words, store, a=texts)
        for question, wanted in (
            ("åen", [2]), ("ÅEN", [2]), ("A\u030aEN", [2]), ("aen", [1]), ("øl", [4]),
            ("æøå", [3]), ("aoa", []),
        ):  # fmt: skip
            assert [each.id for each in words.search("a", question, 9)] == wanted, question


# SQLite takes the micro sign for a Greek letter, and a long s for a short one.
LATIN = st.characters(max_codepoint=0x24F, exclude_characters="µſ")


@settings(max_examples=80, deadline=None)
@given(st.text(LATIN | st.sampled_from("\u030a\u0301\u0327"),
               max_size=30))  # fmt: skip
def test_words_are_cut_as_sqlite_cuts_them(text):
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE VIRTUAL TABLE w USING fts5(t, tokenize='unicode61 remove_diacritics 0')"
    )
    database.execute("CREATE VIRTUAL TABLE v USING fts5vocab('w', 'instance')")
    database.execute("INSERT INTO w VALUES (?)", (unicodedata.normalize("NFC", text),))
    cut = [term for (term,) in database.execute("SELECT term FROM v ORDER BY offset")]
    database.close()
    ours = words_of(text)
    # Python writes some capitals small with two characters, and SQLite leaves them.
    if len(text.lower()) == len(text):
        assert [each.lower() for each in cut] == ours


@pytest.mark.parametrize("question", HOSTILE)
@pytest.mark.parametrize("kind", [Words, Vectors])
def test_anything_can_be_asked(kind, question):
    with memory(kind.tables) as store:
        made = taught(kind, store, a=["En bil.", "Et hus.", "\0 '\"", "🚗", ""])
        for found in made.search("a", question, 3):
            assert 1 <= found.id <= 5
            assert found.score > 0


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40) | st.text('"*:^()-+ \0ANDORNOT', max_size=20))
def test_any_text_can_be_taught_and_asked(text):
    # Halves of characters cannot be kept in any file.
    text = text.encode("utf-8", "replace").decode()
    with memory(Words.tables + Vectors.tables) as store:
        found = taught(Words, store, a=[text, "x"]).search("a", text, 3)
        assert ([each.id for each in found][:1] == [1]) == bool(words_of(text)) or text == "x"
        for each in taught(Vectors, store, b=[text, "y"]).search("b", text, 3)[:1]:
            assert each.score == pytest.approx(1, abs=1e-5)


# ------------------------------------------------------------- fused


def test_two_rankings_are_fused_by_their_ranks():
    first, second = [Found(1, 9), Found(2, 8), Found(3, 7)], [Found(3, 0.2), Found(4, 0.1)]
    fused = fuse([first, second], 3)
    assert [each.id for each in fused] == [3, 1, 2]
    assert fused[0].score == pytest.approx(1 / 63 + 1 / 61)
    assert fuse([second, first], 3) == fused
    assert [each.id for each in fuse([[Found(9, 1)], [Found(4, 2)]], 5)] == [4, 9]
    assert fuse([], 5) == fuse([[], []], 5) == []


def test_the_worked_example_is_real():
    done = doctest.testmod(search)
    assert done.attempted
    assert not done.failed
