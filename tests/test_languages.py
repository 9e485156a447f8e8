"""Language packs: the same keys in each, honest word lists, prose that hides no needle.

test_doors.py tests a third language, from outside.
"""

from __future__ import annotations

import itertools
import re
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from rulerlib import frontier, languages, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import MissingWordingError, ParameterError, RulerError
from rulerlib.haystack import sentences
from rulerlib.models import reference
from rulerlib.tasks import all_tasks
from tools.documents import encyclopedia

TASKS = all_tasks()

CODES = languages.available()

# Those with every family, with every one but documents and memories, and with few.
ALL, FULL = languages.available("memory"), languages.available("reading")
FEW = ["fo", "is", "nn"]
KNOWN = tomllib.loads((Path(__file__).parent / "languages.toml").read_text("utf-8"))
LETTERS = KNOWN["letters"]

# Tasks whose answers the reference reader finds.
READ = ("niah_s", "niah_m", "vt", "cwe", "fwe", "graphwalks", "trace", "records", "associations")
HERE = Path(languages.__file__).parent

OUTSIDE = Path(__file__).parent / "outside" / "language"


def shape(table: dict, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The keys of a pack; some tables are a language's own business."""
    keys = set()
    for key, value in table.items():
        here = (*path, key)
        inside = isinstance(value, dict) and path[:1] != ("types",)
        keys |= {here} | (shape(value, here) if inside else set())
    return keys


# Number words differ from language to language.
FILES = {path.stem for path in (HERE / "en").glob("*.toml")} - {"numbers", "prose"}


@pytest.mark.parametrize("file", sorted(FILES))
def test_packs_have_the_same_keys(file):
    codes = FULL if file == "language" else languages.available(file)
    tables = [tomllib.loads((HERE / code / f"{file}.toml").read_text("utf-8")) for code in codes]
    shapes = [shape(table) for table in tables]
    assert all(keys == shapes[0] for keys in shapes)


@pytest.mark.parametrize("family", tasks.FRONTIER)
def test_the_wordings_of_a_family_have_the_same_keys(family):
    path = Path(frontier.__file__).with_name(f"{family}.toml")
    shapes = [shape(table) for table in tomllib.loads(path.read_text("utf-8")).values()]
    assert len(shapes) >= len(FULL)
    assert all(keys == shapes[0] for keys in shapes)


WORDINGS = Path(encyclopedia.__file__).parent / "languages"


@pytest.mark.parametrize("code", ALL)
def test_no_name_can_stand_inside_another(code):
    """All names that the parts can make."""
    names = languages.load(code).section("names")["names"]
    words = [
        "".join(parts).casefold()
        for endings in names["endings"].values()
        for parts in itertools.product(names["onsets"], names["rimes"], endings)
    ]
    every = set(words)
    assert len(every) == len(words)
    shortest = min(map(len, words))
    for word in words:
        for start in range(len(word) - shortest + 1):
            for end in range(start + shortest, len(word) + 1):
                assert end - start == len(word) or word[start:end] not in every


def texts_of(value) -> list[str]:
    """Every text in the tables of a pack, without names in braces and assignments."""
    if isinstance(value, str):
        return [re.sub(r"\{\w+\}|VAR|=", "", value)]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in inner for text in texts_of(part)]


@pytest.mark.parametrize("code", [code for code in CODES if code != "en"])
def test_no_english_is_left_and_no_letter_of_another_language(code):
    """Names of places and people stay what they are."""
    names = {"episodic", "semantic", "numbers", "prose"}

    def texts_in(code: str) -> list[str]:
        files = [*(HERE / code).glob("*.toml"), *(WORDINGS / code).glob("*.toml")]
        tables = [
            tomllib.loads(file.read_text("utf-8")) for file in files if file.stem not in names
        ]
        families = [
            frontier.load(code, name).templates.get(name, {}) for name in tasks.FRONTIER[:-1]
        ]
        return texts_of([*tables, *families])

    texts = texts_in(code)
    sentences_of = {text for text in texts if len(text.split()) > 2}
    assert not sentences_of & {*texts_in("en")}
    strange = re.compile(r"\b(the|and|you|which|with|from|what|question|answer|this|that)\b", re.I)
    assert not [*filter(strange.search, sentences_of)]
    letters = {*"".join(texts).casefold()} - {*map(chr, range(128))}
    assert letters <= {*LETTERS[code]} | {*"éüè–’…→·×÷−“”"}


@pytest.mark.parametrize("code", CODES)
def test_every_task_fits_or_names_what_is_missing(code, words):
    """And the reference reader finds the answers."""
    lacking = set()
    for task in TASKS:
        length = 2500 if task.startswith("drop") else 1500
        try:
            sample = Dataset(task, length, code, words, num_samples=1)[0]
        except (MissingWordingError, ParameterError):
            lacking.add(TASKS[task].family)
            continue
        assert not re.search(r"\{\w+\}", sample.input + sample.answer_prefix)
        if task.startswith(READ):
            said = reference.answer(sample.input + sample.answer_prefix)
            assert all(text in said for text in sample.outputs), task
    lacks = {"qa", "drop"}
    few = lacks | {"ladder", "common_words", "mrcr", "records", "associations"}
    assert lacking == (few if code in FEW else set() if code in ALL else lacks)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("kind", "fewest"), [("adjectives", 200), ("nouns", 600)])
def test_word_lists_keep_their_rules(code, kind, fewest):
    lines = (HERE / code / f"{kind}.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= (fewest if code in FULL else {200: 100, 600: 200}[fewest])
    assert lines == sorted(lines)
    assert [word for word, count in Counter(lines).items() if count > 1] == []
    letters = f"[a-z{LETTERS[code]}]{{2,}}"
    assert [word for word in lines if not re.fullmatch(letters, word)] == []
    assert not {*languages.load(code).adjectives} & {*languages.load(code).nouns}
    assert tuple(lines) == getattr(languages.load(code), kind)


@pytest.mark.parametrize("code", CODES)
def test_there_are_essays_enough(code):
    essays = languages.load(code).essays
    assert len(sentences(essays)) >= (1000 if code in ("da", "en") else 250 if code in FULL else 40)
    assert min(len(essay.split()) for essay in essays) > 150
    strange = {*"".join(essays).casefold()} - {*LETTERS[code]} - {*map(chr, range(128))}
    assert strange <= {*"éüàçö–’"}


@pytest.mark.parametrize("code", CODES)
def test_nothing_looks_like_a_needle(code):
    pack = languages.load(code)
    needle = max(re.split(r"\{\w+\}", pack.text("niah", "needle")), key=len).strip().casefold()
    wordings = needle, "uuid", "magisk", "magic"
    for essay in pack.essays:
        folded = essay.casefold()
        assert not [wording for wording in wordings if wording in folded]
        assert not re.search(r"\d{5}|[0-9a-f]{8}-", folded)
        assert not re.search(r"[{}<>|\\_\x00-\x09]|https?:", essay), "plain prose"


@pytest.mark.parametrize(("old", "new", "message"), [
    ('code = "', 'code = "da" # ', "a pack with a code of its own, not 'da'"),
    ('name = ', 'title = ', "'name' is missing"),
    ('articles = [', 'articles = 3 # [', "'articles' is not a list"),
])  # fmt: skip
def test_a_damaged_pack_is_refused_in_one_line(tmp_path, monkeypatch, old, new, message):
    monkeypatch.setenv(languages.FOLDERS, "")
    pack = Path(shutil.copytree(OUTSIDE, tmp_path / "pack"))
    text = (pack / languages.FILE).read_text("utf-8")
    (pack / languages.FILE).write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(RulerError, match=re.escape(message)) as error:
        languages.load(str(pack))
    assert "\n" not in str(error.value)
