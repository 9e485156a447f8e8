"""Language packs: the same keys in each, honest word lists, prose that hides no needle.

A third language, from outside, is tried in test_doors.py.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from rulerlib import languages
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, ParameterError
from rulerlib.texts import sentences

CODES = languages.available()
HERE = Path(languages.__file__).parent

OUTSIDE = Path(__file__).parent / "outside" / "language"
WORDING = (OUTSIDE / "language.toml").read_text("utf-8")


@pytest.fixture
def norwegian(tmp_path) -> Path:
    """A copy of the pack from outside."""
    return Path(shutil.copytree(OUTSIDE, tmp_path / "nb"))


def shape(table: dict, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The keys of a pack; some tables are a language's own business."""
    keys = set()
    for key, value in table.items():
        here = (*path, key)
        inside = isinstance(value, dict) and path[:1] != ("types",)
        keys |= {here} | (shape(value, here) if inside else set())
    return keys


@pytest.mark.parametrize("file", sorted(path.name for path in (HERE / "en").glob("*.toml")))
def test_packs_have_the_same_keys(file):
    tables = [tomllib.loads((HERE / code / file).read_text(encoding="utf-8")) for code in CODES]
    # The encyclopedia may say how a name is made, and how an answer.
    shapes = [{key for key in shape(table) if key[-1] not in ("name", "answer")}
              for table in tables]  # fmt: skip
    assert all(keys == shapes[0] for keys in shapes)


@pytest.mark.parametrize("code", CODES)
def test_templates_name_what_is_filled_in(code):
    pack = languages.load(code)
    label = set(pack.label("numbers", 1))
    for form in ("one", "many"):
        names = languages.placeholders(pack.text("niah", form, "template"))
        assert {"context", "query"} <= names <= {"context", "query"} | label
        names = languages.placeholders(pack.text("niah", form, "answer_prefix"))
        assert {"query"} <= names <= {"query"} | label
    assert languages.placeholders(pack.text("niah", "needle")) == {"type", "key", "value"}
    labels = [set(pack.label(kind, n)) for kind in languages.VALUE_TYPES for n in (1, 2)]
    assert all(each == labels[0] for each in labels)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    "section",
    ["niah.one", "niah.many", "variable_tracking", "common_words", "frequent_words",
     "question_answering"],
)  # fmt: skip
def test_answer_prefixes_begin_with_a_space_and_end_without(code, section):
    prefix = languages.load(code).text(*section.split("."), "answer_prefix")
    assert re.fullmatch(r" \S.*\S", prefix)


@pytest.mark.parametrize(
    ("items", "danish", "english"),
    [
        ([], "", ""),
        (["a"], "a", "a"),
        (["a", "b"], "a og b", "a and b"),
        (["a", "b", "c", "d"], "a, b, c og d", "a, b, c and d"),
    ],
)
def test_lists_are_joined(items, danish, english):
    assert languages.load("da").join(items) == danish
    assert languages.load("en").join(items) == english


def test_filling_leaves_unknown_names_and_braces_in_values_alone():
    danish = languages.load("da")
    filled = danish.fill("niah", "one", "template", type="{query}", query="{type}")
    assert "{context}" in filled
    assert "magisk {query} er" in filled
    assert "for {type}, som" in filled


def test_a_question_stands_around_the_context():
    head, tail, prefix = languages.load("en").question("common_words", count=7)
    assert head.startswith("Here is a numbered list of words.")
    assert tail == "\nQuestion: Which 7 words occur most often in the list above?"
    assert prefix == " Answer: The 7 words that occur most often in the list are:"


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("kind", "fewest"), [("adjectives", 300), ("nouns", 600)])
def test_word_lists_keep_their_rules(code, kind, fewest):
    lines = (HERE / code / f"{kind}.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= fewest
    assert lines == sorted(lines)
    assert [word for word, count in Counter(lines).items() if count > 1] == []
    letters = "a-zæøåé" if code == "da" else "a-z"
    assert [word for word in lines if not re.fullmatch(f"[{letters}]{{2,}}", word)] == []
    assert tuple(lines) == getattr(languages.load(code), kind)


@pytest.mark.parametrize("code", CODES)
def test_there_are_essays_enough(code):
    essays = languages.load(code).essays
    assert len(essays) >= 25
    assert sum(len(essay.split()) for essay in essays) >= 15_000
    assert min(len(essay.split()) for essay in essays) > 300


@pytest.mark.parametrize("code", CODES)
def test_no_sentence_is_repeated(code):
    counted = Counter(sentence.casefold() for sentence in sentences(languages.load(code).essays))
    assert [sentence for sentence, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("code", CODES)
def test_nothing_looks_like_a_needle(code):
    pack = languages.load(code)
    wordings = [
        re.split(r"\{\w+\}", pack.text("niah", "needle"))[0].strip().casefold(),
        "uuid",
        "magisk",
        "magic",
    ]
    for essay in pack.essays:
        folded = essay.casefold()
        assert not [wording for wording in wordings if wording in folded]
        assert not re.search(r"\d{5}|[0-9a-f]{8}-", folded)
        assert not re.search(r"[{}<>|\\_\x00-\x09]|https?:", essay), "plain prose"


@pytest.mark.parametrize("code", CODES)
def test_no_word_of_the_packs_own_prose_is_foreign(code):
    pack = languages.load(code)
    prose = {*re.findall(r"\w+", " ".join([pack.noise, *pack.essays]).lower())}
    assert not pack.foreign & {*prose, *pack.adjectives, *pack.nouns}


def test_a_pack_may_say_which_words_are_foreign(norwegian):
    plain = languages.read_pack(norwegian)
    assert plain.foreign == frozenset()
    (norwegian / "foreign.txt").write_text("night\nsilver\n", encoding="utf-8")
    other = languages.read_pack(norwegian)
    assert other.foreign == {"night", "silver"}
    # They decide one task alone; the others stay what they are.
    assert other.fingerprint == plain.fingerprint


@pytest.mark.parametrize("code", CODES)
def test_foreign_words_are_sorted_words(code):
    path = HERE / code / "foreign.txt"
    words = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    assert words == sorted({*words})
    assert all(re.fullmatch(r"[^\W\d_]{3,14}", word) and word.islower() for word in words)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("dk", " (did you mean 'da'?)"),
        ("eng", " (did you mean 'en'?)"),
        ("xyz", ""),
        (5, ""),
        (None, ""),
        (["da"], " (did you mean 'da'?)"),
    ],
)
def test_unknown_languages_are_refused(code, hint):
    with pytest.raises(ParameterError) as caught:
        languages.load(code)
    expected = f"language is {code!r}, but must be one of {', '.join(CODES)}{hint}."
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("noise = ", "silence = "), "'noise' is missing"),
        (("uuids.one", "uuids.two"), "[types.uuids] needs 'one' and 'many'"),
        (('code = "nb"', 'code = "nb'), "cannot be read as a language pack"),
    ],
)
def test_an_incomplete_pack_is_named(change, sentence, norwegian):
    (norwegian / "language.toml").write_text(WORDING.replace(*change), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        languages.read_pack(norwegian)
    assert str(caught.value).startswith(f"{norwegian / 'language.toml'}: ")
    assert sentence in str(caught.value)


def test_a_missing_template_is_named(norwegian, words):
    (norwegian / "language.toml").write_text(
        WORDING.replace("[niah.many]", "[niah.lots]"), encoding="utf-8"
    )
    pack = languages.read_pack(norwegian)
    assert Dataset("niah_single_1", 600, pack, words)[0].outputs
    with pytest.raises(DataError, match=r"language\.toml: \[niah\.many\.template\] is missing\."):
        Dataset("niah_multivalue", 600, pack, words)


@pytest.mark.parametrize("section", languages.SECTIONS)
def test_a_section_may_stand_in_a_file_of_its_own(section, norwegian):
    plain, file = languages.read_pack(norwegian), norwegian / f"{section}.toml"
    for read in (plain.section, lambda name: plain.text(name, "ask")):
        with pytest.raises(DataError, match=rf"{section}\.toml: \[{section}[\w.]*\] is missing,"):
            read(section)
    file.write_text('ask = "Wer war in {town}?"\nnames = ["Ada"]', encoding="utf-8")
    pack = languages.read_pack(norwegian)
    assert pack.section(section)["names"] == ["Ada"]
    assert pack.fill(section, "ask", town="Ulm") == "Wer war in Ulm?"
    # What is made with it cites it; the tasks that do without stay what they are.
    assert pack.fingerprint == plain.fingerprint
    file.write_text("ask = ", encoding="utf-8")
    with pytest.raises(DataError, match=rf"{section}\.toml: cannot be read as the section"):
        languages.read_pack(norwegian)


@pytest.mark.parametrize("name", ["foreign.txt", "refusals.txt", "essays.txt"])
def test_a_text_that_is_not_utf_8_is_named(name, norwegian):
    path = norwegian / name
    path.write_bytes("Tür".encode("latin-1"))
    with pytest.raises(DataError) as caught:
        getattr(languages.read_pack(norwegian), name.partition(".")[0].partition("/")[0])
    assert str(caught.value).startswith(f"{path}: cannot be read ('utf-8' codec")


def test_a_pack_that_is_not_utf_8_or_nested_too_deep_is_named(norwegian):
    for content in (WORDING.encode("latin-1"), b"code = " + b"[" * 100_000):
        (norwegian / "language.toml").write_bytes(content)
        with pytest.raises(DataError, match=r"language\.toml: cannot be read as a language pack"):
            languages.read_pack(norwegian)
