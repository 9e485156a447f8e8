"""The user's own texts: prose is split into sentences, and invalid files are named."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib import haystack
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError
from rulerlib.files import digest
from rulerlib.haystack import checked, read_texts, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Det regner. Vi går ind!", ["Det regner.", "Vi går ind!"]),
        ('Hun sagde: "Kom." Han kom.', ['Hun sagde: "Kom."', "Han kom."]),
        ("»Nej.« Så gik hun.", ["»Nej.«", "Så gik hun."]),
        ('"Kommer du?" spurgte hun. "Ja!"', ['"Kommer du?" spurgte hun.', '"Ja!"']),
        ("Prisen er 3.50 kroner. Dyrt.", ["Prisen er 3.50 kroner.", "Dyrt."]),
        ("uden punktum", ["uden punktum"]),
        ("  \t\n ", []),
        ("他说。「好。」你呢？ 好！", ["他说。", "「好。」", "你呢？", "好！"]),
    ],
)
def test_prose_is_cut_at_the_end_of_sentences(text, expected):
    assert sentences([text]) == expected


def test_a_text_without_sentence_ends_or_spaces_fills_a_prompt(tmp_path):
    path = tmp_path / "blob.txt"
    path.write_text("blåbærgrød" * 5000, encoding="utf-8")
    sample = Dataset("niah_single_2", 2048, "da", "lille", texts=path)[0]
    assert 1500 < sample.length <= 2048


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
    assert checked(apart) == "Rødgrød på øen"
    assert digest([checked(apart)]) == digest(["Rødgrød på øen"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "{path}: empty."),
        (b"ab\x00c", "{path}: control character U+0000 at character 3."),
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


PROSE = st.text(min_size=1).filter(lambda text: text.strip() and not haystack.NO_TEXT.search(text))


def texts_of(path, content: str) -> tuple[str, ...]:
    path.write_text(content, encoding="utf-8")
    return read_texts(path)


@given(written=st.lists(PROSE, min_size=1, max_size=5), ascii_only=st.booleans())
def test_json_gives_the_same_texts(written, ascii_only, tmp_path_factory):
    """Line breaks, quotes, and letters that JSON escapes come back as they were."""
    folder = tmp_path_factory.mktemp("texts")
    objects = [{"title": "No text.", "text": text, "year": 1906} for text in written]
    mixed = [row if number % 2 else row["text"] for number, row in enumerate(objects)]
    for rows in (objects, mixed):
        listed = json.dumps(rows, ensure_ascii=ascii_only, indent=1)
        assert texts_of(folder / "own.json", listed) == read_texts(written)
    assert texts_of(folder / "one.json", json.dumps(objects[0])) == read_texts(written[:1])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", ": not valid JSON (Expecting value"),
        ('{"txt": "Et."}', ", text 1: not a text but NoneType."),
        ('["Et.", 5]', ", text 2: not a text but int."),
        ('[\n"Et.",\n"To', ": not valid JSON (Unterminated string starting at: line 3"),
        ('"\\ud83d"', ", text 1: control character U+D83D at character 1."),
    ],
)
def test_wrong_json_is_named(content, said, tmp_path):
    with pytest.raises(DataError) as caught:
        texts_of(tmp_path / "own.json", content)
    assert str(caught.value).startswith(f"{tmp_path / 'own.json'}{said}")
