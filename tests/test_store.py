"""Cells and their folders, and files that are whole or not there."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import tempfile

import pytest
from helpers_store import FIVE, write_records
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import files
from rulerlib.errors import ParameterError
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.store.cell import LONGEST, Cell, safe_name

BASE = Cell("lille", "niah_single_2", "da", 4096)

# Texts that are awkward as names, and those that look like other values, or like names we make.
awkward = st.sampled_from([
    "a", "A", "a b", "a_b", "a/b", "a--b", "a\\b", "é", "e\u0301", "ø", "\ud800", ".", "..", "-",
    "../..", "con", "a+b", "a=b", "a#b", "8", "8.0", "true", "null", "none", "nan", "", " ", "[1]",
    "data/dev.json", "other/dev.json", "https://example.org/x?y=1", "x" * 500, "X" * 500,
    "studies", "a=1+seed=7", "seed=7", "org/Model", "org--Model", "org/0a1b", safe_name("A"),
    safe_name("a b"),
])  # fmt: skip
texts = awkward | st.text(max_size=12)
names = texts.filter(bool)
numbers = st.integers(-5, 5) | st.sampled_from([0.5, 1.0, 2.0, 1e-9, 1e300])
leaves = st.none() | st.booleans() | numbers | texts
data = st.recursive(leaves, lambda inner: st.lists(inner, max_size=2), max_leaves=3)
knobs = st.dictionaries(
    texts | st.sampled_from(["depth", "seed", "texts", "knobs.seed", "chat", "engine"]), data,
    max_size=3,
)  # fmt: skip
formats = st.builds(
    lambda chat, stop, system, place: PromptFormat(
        chat=chat, stop=stop, system_prompt=system, answer_prefix=place
    ),
    st.sampled_from([None, True, False]),
    st.lists(st.sampled_from(["\n", "a b", "A", "END", "x" * 200]), max_size=2),
    st.none() | st.sampled_from(["Be brief.", "be brief.", "B" * 300, "B" * 301]),
    st.sampled_from(["assistant", "user", "none"]),
)
rooms = st.sampled_from([None, 32, 128])
decodings = st.builds(Decoding, tokens_to_generate=rooms) | st.builds(
    Decoding,
    st.sampled_from([0.5, 1, 1.0, 2]),
    st.sampled_from([1, 0.5, 0.95]),
    st.none() | st.integers(0, 3),
    st.integers(1, 3),
    rooms,
)
cells = st.builds(
    Cell,
    model=names,
    task=st.sampled_from(["niah_single_2", "qa_1", "x" * 60]),
    language=st.sampled_from(["da", "en", "zh-Hans"]),
    length=st.integers(1, 10**6),
    knobs=knobs,
    seed=st.integers(0, 50),
    queries_per_context=st.integers(1, 9),
    texts=st.none() | names,
    engine=st.sampled_from(["transformers", "vllm", "openai"]),
    options=knobs,
    weights=st.none() | st.sampled_from(["0a1b2c3d", "12345678", "1234e678"]),
    format=formats,
    decoding=decodings,
    allow_truncation=st.booleans(),
    memory=st.none() | names,
    study=st.none() | names,
)


def only_case_of_the_model(one, other):
    """Hub names keep their capitals, as they always did; no two differ in nothing else."""
    return one.model != other.model and one.model.lower() == other.model.lower()


def places(cell):
    # As a file system sees them that does not tell capitals from small letters.
    return str(cell.answers("runs")).casefold(), str(cell.questions("runs")).casefold()


@pytest.mark.parametrize("study", [None, "depth"])
@pytest.mark.parametrize(
    ("model", "folder"),
    [("lille", "lille"), ("org/Model-1.5B", "org--Model-1.5B"), ("gpt-4-0613", "gpt-4-0613"),
     ("a/b/c", "a--b--c")],
)  # fmt: skip
def test_a_cell_without_settings_stands_where_it_always_did(model, folder, study):
    cell = Cell(model, "qa_1", "en", 8192, study=study)
    root = "runs" if study is None else "runs/studies/depth"
    assert cell.questions("runs").as_posix() == (
        f"{root}/{folder}/en/8192/data/qa_1/validation.jsonl"
    )
    assert cell.answers("runs").as_posix() == f"{root}/{folder}/en/8192/pred/qa_1.jsonl"


@pytest.mark.parametrize(
    ("changed", "name", "label"),
    [
        ({"seed": 7}, "", "+seed=7"),
        ({"texts": "book.txt-0a1b2c3d"}, "", "+texts=book.txt-0a1b2c3d"),
        ({"knobs": {"seed": 7}}, "", "+knobs.seed=7"),
        ({"knobs": {"num_needle_k": 4, "depth": 50, "haystack": "essay"}, "queries_per_context": 5},
         "", "+depth=50+haystack=essay+num_needle_k=4+queries_per_context=5"),
        ({"knobs": {"source": "data/Dev set.json"}}, "", r"\+source=dev_set\.json--[0-9a-f]{4}"),
        ({"engine": "vllm", "options": {"dtype": "float32"}}, "+dtype=float32+engine=vllm", ""),
        ({"format": PromptFormat(chat=False)}, "+chat=false", ""),
        ({"format": PromptFormat(stop=("\n",))}, r"\+stop=n--[0-9a-f]{4}", ""),
        ({"decoding": Decoding(0.7, 0.9, 3)}, "+temperature=0.7+top_p=0.9+decoding_seed=3", ""),
        ({"weights": "0a1b2c3d"}, "+weights=0a1b2c3d", ""),
    ],
)  # fmt: skip
def test_settings_have_legible_names(changed, name, label):
    cell = dataclasses.replace(BASE, **changed)
    for made, first, rest in ((cell.name, "lille", name), (cell.label, "niah_single_2", label)):
        assert made == first + rest or re.fullmatch(first + rest, made)


@settings(max_examples=300)
@given(cells)
def test_names_are_short_and_safe(cell):
    for name in (cell.name, cell.label):
        assert len(name) <= LONGEST
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+=#-]*", name)
    for path in (cell.answers("runs"), cell.questions("runs")):
        assert ".." not in path.parts
        assert all(len(part) <= 120 and not part.startswith(".") for part in path.parts)
    assert cell.label.partition("+")[0] == cell.task


@settings(max_examples=300)
@given(cells, cells, st.data())
def test_cells_that_differ_in_any_field_differ_in_place(one, other, draw):
    """All fields of one, but one of another."""
    field = draw.draw(st.sampled_from([item.name for item in dataclasses.fields(Cell)]))
    changed = dataclasses.replace(one, **{field: getattr(other, field)})
    for first, second in ((one, changed), (one, other)):
        same = json.dumps(first.settings(), sort_keys=True) == json.dumps(
            second.settings(), sort_keys=True
        )
        if same:
            assert first == second
        if first == second:
            assert hash(first) == hash(second)
            assert places(first) == places(second)
        elif not only_case_of_the_model(first, second):
            assert not set(places(first)) & set(places(second))


def test_knobs_are_handed_on_as_they_are_and_equal_ones_are_one():
    knobs = {"alpha": 2.0, "pair": (1, 2)}
    cell = dataclasses.replace(BASE, knobs=knobs)
    assert repr(cell.knobs) == repr(knobs)
    assert cell.settings()["knobs"] == {"alpha": 2, "pair": [1, 2]}
    # Whoever changes theirs later changes no cell.
    knobs["alpha"] = 3
    assert cell.knobs["alpha"] == 2
    same = dataclasses.replace(BASE, knobs={"pair": [1, 2], "alpha": 2})
    assert same == cell
    assert (same.label, hash(same)) == (cell.label, hash(cell))
    for value in ("2", True, 2.5):
        assert cell != dataclasses.replace(cell, knobs={**knobs, "alpha": value})


NAME, TASK = "a name", "a short name of a-z, 0-9, '.', '_' and '-'"
DICTIONARY = "a dictionary {setting: value}"
PLAIN = "plain data: strings, numbers, lists and dictionaries"


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("task", "a+b", TASK), ("task", "Niah", TASK), ("task", "", TASK), ("task", None, TASK),
        ("task", "x" * 61, TASK), ("model", "", NAME), ("model", None, NAME),
        ("language", None, NAME), ("engine", None, NAME), ("study", "", NAME + ", or None"),
        ("texts", 3, NAME + ", or None"), ("length", 0, "a whole number, at least 1"),
        ("seed", -1, "a whole number, at least 0"),
        ("queries_per_context", 0, "a whole number, at least 1"), ("knobs", [], DICTIONARY),
        ("options", None, DICTIONARY), ("knobs", {1: 2}, PLAIN), ("options", {"a": {1: 2}}, PLAIN),
        ("knobs", {"a": [{1}]}, PLAIN), ("options", {"a": b"b"}, PLAIN),
    ],
)  # fmt: skip
def test_what_cannot_be_part_of_a_name_is_refused(field, value, allowed):
    with pytest.raises(ParameterError) as error:
        dataclasses.replace(BASE, **{field: value})
    # Of a dictionary, the value within it that is not plain is named.
    culprit = repr(error.value.value)
    assert culprit in repr(value)
    assert str(error.value) == f"{field} is {culprit}, but must be {allowed}."
    assert error.value.parameter == field


def full(*_):
    raise OSError(28, "No space left on device")


def test_an_error_while_writing_leaves_the_old_file(five, monkeypatch):
    before = five.read_bytes()

    def broken():
        yield FIVE[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_records(five, broken())
    with monkeypatch.context() as patched:
        # A disk that is full at the end.
        patched.setattr(pathlib.Path, "replace", full)
        with pytest.raises(ParameterError, match=r"can be written \(No space left on device\)\.$"):
            write_records(five, FIVE * 2)
    with pytest.raises(ParameterError, match=r"^output is '.*', but must be a file that can be"):
        files.write_object(five / "folder" / "x.json", {})
    assert five.read_bytes() == before
    assert os.listdir(five.parent) == [five.name], "no temporary file is left"


def test_a_folder_is_tried_before_anything_is_written(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b"
    # The system's own folder for such files says nothing of this one.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    for _ in range(2):
        files.check_writable(folder)
        assert os.listdir(folder) == []

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ParameterError) as error:
        files.check_writable(folder)
    assert str(error.value) == (
        f"output is '{folder}', but must be a file that can be written (No space left on device)."
    )
