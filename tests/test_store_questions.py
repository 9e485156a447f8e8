"""Files of questions: reused, extended and found."""

from __future__ import annotations

import json

import pytest
from helpers_model import some_samples, tree
from helpers_store import Given

from rulerlib import store
from rulerlib.errors import DataError, ParameterError, RunMismatchError
from rulerlib.samples import Sample, read


def test_existing_samples_are_reused(tmp_path):
    path = store.write_questions(Given(some_samples(5)), tmp_path)
    assert list(read(path, Sample)) == some_samples(5)
    assert store.read_metadata(path) == {"task": "niah_single_2", "seed": 42, "length": 4096}
    before = path.stat()

    class Unmade(Given):
        def __iter__(self):
            raise AssertionError("a sample was generated")

    for count in (5, 3):
        store.write_questions(Unmade(some_samples(count)), tmp_path)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_more_samples_extend_the_file(tmp_path):
    for count in (2, 5, 3, 9):
        before = tree(tmp_path / "growing").get("validation.jsonl", b"")
        path = store.write_questions(Given(some_samples(count)), tmp_path / "growing")
        assert path.read_bytes().startswith(before)
    store.write_questions(Given(some_samples(9)), tmp_path / "whole")
    assert tree(tmp_path / "growing") == tree(tmp_path / "whole")


def test_other_settings_are_refused_by_name(tmp_path):
    store.write_questions(Given(some_samples(2), knobs={"depth": 0}), tmp_path)
    before = tree(tmp_path)
    with pytest.raises(RunMismatchError, match=r"was made with knobs\.depth = 0, not 50:"):
        store.write_questions(Given(some_samples(2), knobs={"depth": 50}), tmp_path)
    assert tree(tmp_path) == before


def test_a_former_setting_with_its_only_value_left_is_no_difference(tmp_path):
    path = store.write_questions(Given(some_samples(2), knobs={"words": "wordfreq"}), tmp_path)
    assert store.write_questions(Given(some_samples(2), knobs={}), tmp_path) == path
    store.write_questions(Given(some_samples(2), knobs={"words": "text"}), tmp_path / "text")
    with pytest.raises(RunMismatchError, match="'text', not 'wordfreq'"):
        store.write_questions(Given(some_samples(2), knobs={}), tmp_path / "text")


def put(path, *samples):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"input": "a", "outputs": ["b"], "index": 0, **sample} for sample in samples]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("folder", "length"),
    # The number of a folder counts if the samples fit in it.
    [("synthetic/4096/data", 4096), ("17/data", 900), ("mine", 900)],
)
def test_the_length_is_that_of_the_folder_or_of_the_longest_sample(tmp_path, folder, length):
    path = put(tmp_path / folder / "vt" / "validation.jsonl", {"length": 900}, {"length": 3})
    top = tmp_path / folder.split("/")[0]
    assert store.find_questions(str(top), ["vt", "qa_1"]) == {("vt", length): path}
    assert store.find_questions(str(path), ["vt"]) == {("vt", length): path}


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (
            {"length": 9, "input": "x \ud83d"},
            ", line 1: Invalid JSON: unexpected end",
        ),
        ({"length": -5}, ": no samples, or none with a 'length'; add it, or name a folder above"),
    ],
)
def test_invalid_files_are_named(tmp_path, bad, sentence):
    path = put(tmp_path / "mine" / "vt" / "validation.jsonl", bad)
    with pytest.raises(DataError) as error:
        store.find_questions(str(tmp_path), ["vt"])
    assert str(error.value).startswith(f"{path}{sentence}")


def test_two_files_of_one_task_and_length_are_refused(tmp_path):
    for name in ("one", "other"):
        put(tmp_path / name / "512" / "vt" / "validation.jsonl", {})
    with pytest.raises(ParameterError, match="one file of vt at length 512"):
        store.find_questions(str(tmp_path), ["vt"])


@pytest.mark.parametrize("data", ["", "nowhere", 5, "a\0b"])
def test_data_that_does_not_exist_is_named(data):
    with pytest.raises(ParameterError, match=r"data is .*validation\.jsonl"):
        store.find_questions(data, ["vt"])
