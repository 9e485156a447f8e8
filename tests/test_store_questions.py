"""Questions on disk: whole or not there, reused, extended, written by one process at a time."""

from __future__ import annotations

import json
import time

import pytest
from helpers_model import PROCESSES, some_samples, tree
from helpers_store import Given, writing

from rulerlib.errors import BusyError, DataError, ParameterError, RunMismatchError
from rulerlib.samples import Sample, read
from rulerlib.store import questions

NAMES = ("metadata.json", "validation.jsonl")


def bytes_of(tmp_path, dataset, name="whole"):
    """The files of an undisturbed run."""
    questions.write(dataset, tmp_path / name)
    return tree(tmp_path / name)


def visible(folder):
    """The files of a folder without the lock that a killed process may leave."""
    return {name: data for name, data in tree(folder).items() if name != ".validation.jsonl.lock"}


def test_samples_and_metadata_are_written(tmp_path):
    path = questions.write(Given(some_samples(5)), tmp_path)
    assert path == tmp_path / "validation.jsonl"
    assert list(read(path, Sample)) == some_samples(5)
    about = questions.metadata(path)
    assert about == {"task": "niah_single_2", "seed": 42, "length": 4096}
    assert sorted(tree(tmp_path)) == ["metadata.json", "validation.jsonl"]


def test_what_stands_there_is_reused(tmp_path):
    path = questions.write(Given(some_samples(5)), tmp_path)
    before = path.stat()

    class Unmade(Given):
        def __iter__(self):
            raise AssertionError("a sample was made")

    for count in (None, 3, 5, 9):
        questions.write(Unmade(some_samples(5)), tmp_path, count)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_more_samples_extend_the_file(tmp_path):
    for count in (2, 5, 3, 9):
        before = tree(tmp_path / "growing").get("validation.jsonl", b"")
        path = questions.write(Given(some_samples(9)), tmp_path / "growing", count)
        assert path.read_bytes().startswith(before)
    assert tree(tmp_path / "growing") == bytes_of(tmp_path, Given(some_samples(9)))


def test_other_settings_are_refused_by_name(tmp_path):
    before = bytes_of(tmp_path, Given(some_samples(2), knobs={"depth": 0}), "data")
    with pytest.raises(RunMismatchError) as error:
        questions.write(Given(some_samples(2), knobs={"depth": 50}), tmp_path / "data")
    assert "was made with knobs.depth = 0, not 50:" in str(error.value)
    assert tree(tmp_path / "data") == before


def test_a_file_of_another_tool_is_left_alone(tmp_path):
    (tmp_path / "validation.jsonl").write_text("{}\n")
    with pytest.raises(RunMismatchError) as error:
        questions.write(Given(some_samples(2)), tmp_path)
    assert str(error.value) == (
        f"{tmp_path / 'validation.jsonl'} has no metadata.json, so another tool made it: choose"
        " another output folder."
    )
    assert questions.metadata(tmp_path / "validation.jsonl") == {}


def test_damaged_metadata_is_named(tmp_path):
    questions.write(Given(some_samples(5)), tmp_path)
    (tmp_path / "metadata.json").write_text("{")
    with pytest.raises(DataError, match=r"metadata\.json: damaged"):
        questions.write(Given(some_samples(5)), tmp_path)


def test_metadata_of_older_versions_count(tmp_path):
    path = questions.write(Given(some_samples(2)), tmp_path)
    old = {**questions.metadata(path), "num_samples": 2, "sha256": "0"}
    (tmp_path / "metadata.json").write_text(json.dumps(old))
    questions.write(Given(some_samples(3)), tmp_path)
    assert list(read(path, Sample)) == some_samples(3)


def test_the_second_writer_is_told(tmp_path):
    folder = tmp_path / "data"
    ready = PROCESSES.Event()
    slow = Given(some_samples(20), seconds=0.2)
    first = PROCESSES.Process(target=writing, args=(slow, folder, 0, ready))
    first.start()
    assert ready.wait(300)
    until = time.monotonic() + 60
    while not list(folder.glob(".validation.jsonl.unfinished")):
        assert time.monotonic() < until
        time.sleep(0.01)
    with pytest.raises(BusyError, match=f"process {first.pid}:"):
        questions.write(Given(some_samples(20)), folder, 5)
    first.kill()
    first.join()
    questions.write(Given(some_samples(20)), folder, 5)
    assert visible(folder) == bytes_of(tmp_path, Given(some_samples(5)))


@pytest.mark.parametrize(
    ("was", "now", "named"),
    [
        ({"dataset": {"seed": 1}}, {"dataset": {"seed": 2}}, "dataset.seed = 1, not 2"),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, "a.c = None, not 2"),
        ({"a": {"b": 1}}, {"a": 3}, "a = {'b': 1}, not 3"),
        ({"dataset": {}}, {"dataset": {"queries_per_context": 2}}, "queries_per_context = 1, not"),
        ({"cell": {"seed": 43}}, {"cell": {}}, "cell.seed = 43, not 42"),
    ],
)
def test_the_innermost_setting_that_differs_is_named(tmp_path, was, now, named):
    with pytest.raises(RunMismatchError) as error:
        questions.compare(tmp_path, was, now)
    assert str(error.value).startswith(f"{tmp_path} was made with ")
    assert named in str(error.value)
    assert str(error.value).endswith(": choose another output folder, or delete this one.")
    questions.compare(tmp_path, was, was)
    # A default may be left unsaid.
    questions.compare(tmp_path, {**was, "queries_per_context": 1}, was)
    questions.compare(tmp_path, was, now, ignore=tuple(now))


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
    assert questions.find(str(top), ["vt", "qa_1"]) == {("vt", length): path}
    assert questions.find(str(path), ["vt"]) == {("vt", length): path}


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"outputs": ["b", " \t"]}, r"the reference ' \t' is blank"),
        ({"golds": [["b", ""]]}, "the reference '' is blank"),
        ({"outputs": []}, "'outputs' is empty; give at least one reference answer."),
        ({"input": "x \ud83d"}, "Invalid JSON: unexpected end of hex escape"),
        ({"length": -5}, "'length' is missing or not positive; add it, or name a folder"),
    ],
)
def test_samples_that_cannot_be_asked_are_named_by_file_and_line(tmp_path, bad, sentence):
    path = put(tmp_path / "mine" / "vt" / "validation.jsonl", {"length": 9}, {"length": 9, **bad})
    with pytest.raises(DataError) as error:
        questions.find(str(tmp_path), ["vt"])
    assert str(error.value).startswith(f"{path}, line 2: {sentence}")
    assert "\n" not in str(error.value)


def test_a_length_is_needed_only_where_no_folder_names_it(tmp_path):
    path = put(tmp_path / "4096" / "vt" / "validation.jsonl", {}, {})
    assert questions.find(str(tmp_path), ["vt"]) == {("vt", 4096): path}
    path = put(tmp_path / "mine" / "vt" / "validation.jsonl", {})
    with pytest.raises(DataError, match=r", line 1: 'length' is missing .*4096/vt/validation"):
        questions.find(str(tmp_path / "mine"), ["vt"])


def test_folders_of_other_knobs_count_where_they_are_asked_for(tmp_path):
    path = put(tmp_path / "512" / "vt+num_hops=2" / "validation.jsonl", {})
    assert questions.find(str(tmp_path), ["vt"], knobs=True) == {("vt", 512): path}
    with pytest.raises(ParameterError, match="folder with such files"):
        questions.find(str(tmp_path), ["vt"])


def test_two_files_of_one_task_and_length_are_refused(tmp_path):
    for name in ("one", "other"):
        put(tmp_path / name / "512" / "vt" / "validation.jsonl", {})
    with pytest.raises(ParameterError, match="one file of vt at length 512"):
        questions.find(str(tmp_path), ["vt"])


@pytest.mark.parametrize("data", ["", " ", "nowhere", 5, None, "a\0b", "x" * 5000, "\ud800"])
def test_data_that_is_not_there_is_named(data):
    with pytest.raises(ParameterError, match=r"data is .*validation\.jsonl"):
        questions.find(data, ["vt"])


def test_the_language_is_the_one_that_the_samples_name(tmp_path):
    first = put(tmp_path / "1" / "vt" / "validation.jsonl", {"language": "da"})
    other = put(tmp_path / "2" / "vt" / "validation.jsonl", {})
    assert questions.language("x", {("vt", 1): first}) == "da"
    assert questions.language("x", {("vt", 2): other}) == "en"
    with pytest.raises(ParameterError, match="one language"):
        questions.language("x", {("vt", 1): first, ("vt", 2): other})
