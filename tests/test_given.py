"""Datasets that are there already: which files, how long, in which language."""

from __future__ import annotations

import json

import pytest

from rulerlib import given
from rulerlib.errors import ParameterError


def put(path, *samples):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"input": "a", "outputs": ["b"], "index": 0, **sample} for sample in samples]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("folder", "length"),
    [
        ("synthetic/4096/data", 4096),
        ("2024/data", 2024),
        # A folder with a smaller number is no length.
        ("17/data", 900),
        ("mine", 900),
    ],
)
def test_the_length_is_that_of_the_folder_or_of_the_longest_sample(tmp_path, folder, length):
    path = put(tmp_path / folder / "vt" / "validation.jsonl", {"length": 900}, {"length": 3})
    top = tmp_path / folder.split("/")[0]
    assert given.find(str(top), ["vt", "qa_1"]) == {("vt", length): path}
    assert given.find(str(path), ["vt"]) == {("vt", length): path}


def test_folders_of_other_knobs_count_where_they_are_asked_for(tmp_path):
    path = put(tmp_path / "512" / "vt+num_hops=2" / "validation.jsonl", {})
    assert given.find(str(tmp_path), ["vt"], knobs=True) == {("vt", 512): path}
    with pytest.raises(ParameterError, match="folder with such files"):
        given.find(str(tmp_path), ["vt"])


def test_two_files_of_one_task_and_length_are_refused(tmp_path):
    for name in ("one", "other"):
        put(tmp_path / name / "512" / "vt" / "validation.jsonl", {})
    with pytest.raises(ParameterError, match="one file of vt at length 512"):
        given.find(str(tmp_path), ["vt"])


@pytest.mark.parametrize("data", ["", " ", "nowhere", 5, None, "a\0b", "x" * 5000, "\ud800"])
def test_data_that_is_not_there_is_named(data):
    with pytest.raises(ParameterError, match=r"data is .*validation\.jsonl"):
        given.find(data, ["vt"])


def test_the_language_is_the_one_that_the_samples_name(tmp_path):
    first = put(tmp_path / "1" / "vt" / "validation.jsonl", {"language": "da"})
    other = put(tmp_path / "2" / "vt" / "validation.jsonl", {})
    assert given.language("x", {("vt", 1): first}) == "da"
    assert given.language("x", {("vt", 2): other}) == "en"
    with pytest.raises(ParameterError, match="one language"):
        given.language("x", {("vt", 1): first, ("vt", 2): other})


def test_a_file_is_known_by_its_bytes_wherever_it_stands(tmp_path):
    first = put(tmp_path / "a" / "vt" / "validation.jsonl", {}, {})
    same = put(tmp_path / "b" / "vt" / "validation.jsonl", {}, {})
    other = put(tmp_path / "c" / "vt" / "validation.jsonl", {})
    assert given.source(first) == given.source(same) != given.source(other)
    assert [given.count(path) for path in (first, other)] == [2, 1]
