"""The user's own texts: prose is cut into sentences, and what is no text is named."""

from __future__ import annotations

import doctest
import os
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib import texts
from rulerlib.errors import DataError, ParameterError
from rulerlib.texts import clean, digest, read_texts, sentences

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
    assert digest([clean(apart)]) == digest(["Rødgrød på øen"])


def test_a_digest_tells_texts_apart():
    made = [digest(texts) for texts in (["a", "b"], ["ab"], ["b", "a"], ["a"], [])]
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


@pytest.mark.parametrize("text", ["a\ud800b", "\udfff"])
def test_half_a_character_is_no_text(text):
    with pytest.raises(DataError, match=r"^text 1: control character U\+D"):
        read_texts([text])


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "own.txt")
    with pytest.raises(DataError, match=r"own\.txt: a pipe, not a file\.$"):
        read_texts(tmp_path)
    with pytest.raises(ParameterError, match="a file or folder that exists"):
        read_texts(tmp_path / "own.txt")


def test_a_folder_that_is_named_like_a_file(tmp_path):
    (tmp_path / "own.txt").mkdir()
    with pytest.raises(DataError, match=r"own\.txt: cannot be read \(Is a directory\)\.$"):
        read_texts(tmp_path)


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


def test_the_worked_example_is_real():
    done = doctest.testmod(texts)
    assert done.attempted
    assert not done.failed
