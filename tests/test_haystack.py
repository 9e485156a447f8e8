"""The haystack: prose is cut into units, units fill a room, needles take their places."""

from __future__ import annotations

import random
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import haystack
from rulerlib.errors import DataError, ParameterError
from rulerlib.haystack import DEPTHS, Filling, Haystack, Pool, clean, read_texts, sentences
from rulerlib.tokens import Words

# --- Depths ---------------------------------------------------------------------------------


def test_the_depths_are_those_of_ruler():
    numpy = pytest.importorskip("numpy")
    # RULER's own line.
    assert list(DEPTHS) == list(numpy.round(numpy.linspace(0, 100, num=40)).astype(int))


@given(st.integers(0, 10**9))
def test_any_40_in_a_row_take_each_depth_once(first):
    assert sorted(haystack.depth_of(first + i) for i in range(40)) == list(DEPTHS)


@given(st.integers(0, 10**6))
def test_any_ten_that_begin_at_a_round_number_are_even(tens):
    first = [haystack.depth_of(10 * tens + i) for i in range(10)]
    assert sorted(DEPTHS.index(depth) // 4 for depth in first) == list(range(10))


# --- Sentences ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Det regner. Vi går ind!", ["Det regner.", "Vi går ind!"]),
        ("Hvad nu?\n\nIngenting …  Slut.", ["Hvad nu?", "Ingenting …", "Slut."]),
        ('Hun sagde: "Kom." Han kom.', ['Hun sagde: "Kom."', "Han kom."]),
        ("»Nej.« Så gik hun.", ["»Nej.«", "Så gik hun."]),
        ("(Et indskud.) Videre.", ["(Et indskud.)", "Videre."]),
        ("Prisen er 3.50 kroner. Dyrt.", ["Prisen er 3.50 kroner.", "Dyrt."]),
        ("uden punktum", ["uden punktum"]),
        ("  \t\n ", []),
        ("Ja.\u00a0Nej.", ["Ja.", "Nej."]),
    ],
)
def test_prose_is_cut_at_the_end_of_sentences(text, expected):
    assert sentences([text]) == expected


@given(st.lists(st.text(alphabet='ab.!? \n"»«)', max_size=60), max_size=4))
def test_no_character_but_white_space_is_lost(texts):
    units = sentences(texts)
    assert " ".join(" ".join(units).split()) == " ".join(" ".join(texts).split())
    assert all(unit == unit.strip() != "" for unit in units)


def test_text_without_full_stops_is_cut_too():
    units = sentences([" ".join(f"ord{i}" for i in range(1000))])
    assert len(units) == 17
    assert all(len(unit.split()) <= 60 for unit in units)


# --- Filling --------------------------------------------------------------------------------

units_of_words = st.lists(
    st.integers(1, 12).map(lambda count: " ".join(["ord"] * count) + "."), min_size=1, max_size=8
)


@given(units=units_of_words, room=st.integers(0, 200), data=st.data())
def test_a_room_is_filled_until_the_next_unit_is_too_long(units, room, data):
    made = Haystack(units, " ", Words())
    start = data.draw(st.integers(0, len(units) - 1))
    filling = made.take(room, start)
    assert filling.units == [units[(start + i) % len(units)] for i in range(len(filling.units))]
    counted = Words().count(" ".join(["x.", *filling.units])) - Words().count("x.")
    assert sum(filling.costs) == counted <= room
    following = units[(start + len(filling.units)) % len(units)]
    assert counted + Words().count(" " + following) > room


@given(units=units_of_words, room=st.integers(0, 60), seed=st.integers(0, 100))
def test_a_pool_gives_no_unit_twice(units, room, seed):
    numbered = [f"{i} {unit}" for i, unit in enumerate(units * 12)]
    pool = Pool(numbered, "\n", Words())
    filling = pool.draw(room, random.Random(seed))
    assert len(set(filling.units)) == len(filling.units)
    assert sum(filling.costs) <= room
    assert room - sum(filling.costs) < pool.longest


def test_a_pool_that_is_too_small_says_so():
    pool = Pool(["a.", "b."], "\n", Words())
    with pytest.raises(DataError, match="A pool of 2 units is too small for 100 tokens"):
        pool.draw(100, random.Random(1))


def test_a_haystack_needs_text():
    with pytest.raises(DataError, match="at least one unit"):
        Haystack([], " ", Words())


def test_the_filling_is_the_caller_s_own():
    made = Haystack(["En.", "To.", "Tre."], " ", Words())
    made.take(4, 0).units.pop()
    assert made.units == ["En.", "To.", "Tre."]


@settings(max_examples=200)
@given(
    costs=st.lists(st.integers(1, 9), max_size=30),
    depths=st.lists(st.sampled_from(DEPTHS), unique=True, max_size=10).map(sorted),
)
def test_needles_stand_at_the_seam_nearest_to_their_depth(costs, depths):
    filling = Filling([f"u{i}" for i in range(len(costs))], costs, " ")
    needles = [f"NEEDLE{i}" for i in range(len(depths))]
    made = filling.insert(needles, depths, [5] * len(depths))
    assert [p for p in made.pieces if p.startswith("u")] == filling.units
    assert [made.pieces[place] for place in made.places] == needles
    sums = [sum(costs[:i]) for i in range(len(costs) + 1)]
    for number, (needle, depth) in enumerate(zip(needles, depths, strict=True)):
        before = made.tokens_before()[number] - 5 * number
        best = min(abs(total - sums[-1] * depth / 100) for total in sums)
        assert abs(before - sums[-1] * depth / 100) == pytest.approx(best)
        assert made.text[made.character_of(number) :].startswith(needle)


def test_contains_ignores_case():
    made = Haystack(["Et ÆBLE og en Grøn-Bil.", "Slut."], " ", Words())
    assert made.contains("grøn-bil")
    assert made.contains("æble")
    assert not made.contains("grøn-båd")


# --- The user's own texts -------------------------------------------------------------------


def test_a_file_a_folder_and_an_iterable_give_the_same(tmp_path):
    (tmp_path / "b.txt").write_text("Anden tekst.", encoding="utf-8")
    (tmp_path / "a.txt").write_text("\ufeffFørste tekst.", encoding="utf-8")
    (tmp_path / "not.md").write_text("Noget andet.", encoding="utf-8")
    expected = ("Første tekst.", "Anden tekst.")
    assert read_texts(tmp_path) == expected
    assert read_texts(str(tmp_path)) == expected
    assert read_texts(iter(expected)) == expected
    assert read_texts(tmp_path / "a.txt") == expected[:1]


def test_texts_are_brought_to_one_form():
    apart = unicodedata.normalize("NFD", "Rødgrød på øen")
    assert clean(apart) == "Rødgrød på øen"
    assert haystack.digest([clean(apart)]) == haystack.digest(["Rødgrød på øen"])


def test_a_digest_tells_texts_apart():
    made = [haystack.digest(texts) for texts in (["a", "b"], ["ab"], ["b", "a"], ["a"], [])]
    assert len(set(made)) == 5
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in made)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "{path}: empty."),
        (b" \n\t ", "{path}: empty."),
        (b"ab\x00c", "{path}: control character U+0000 at character 3."),
        (b"bip\x07", "{path}: control character U+0007 at character 4."),
        ("x\x9b".encode(), "{path}: control character U+009B at character 2."),
        ("x\ufffe".encode(), "{path}: control character U+FFFE at character 2."),
        ("blåbær".encode("latin-1"), "{path}: not UTF-8 (byte 2: invalid continuation byte)."),
    ],
)
def test_bad_text_files_are_named(content, sentence, tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes(content)
    for source in (path, tmp_path):
        with pytest.raises(DataError) as caught:
            read_texts(source)
        assert str(caught.value) == sentence.format(path=path)


def test_bad_sources_are_named(tmp_path):
    with pytest.raises(ParameterError, match=r"^text is '/no/such\.txt', but must be a file or"):
        read_texts("/no/such.txt")
    with pytest.raises(DataError, match=r"no text files \(\*\.txt\) in this folder\.$"):
        read_texts(tmp_path)
    with pytest.raises(ParameterError, match=r"^text is \[\], but must be at least one text\.$"):
        read_texts([])
    with pytest.raises(DataError, match=r"^text 2: empty\.$"):
        read_texts(["Noget.", ""])
    with pytest.raises(DataError, match=r"^text 2: not a text but int\.$"):
        read_texts(["Noget.", 3])


def test_line_ends_and_tabs_are_text():
    assert clean("a\r\nb\tc\x0bd\x0ce") == "a\r\nb\tc\x0bd\x0ce"
