"""Questions on disk: whole or not there, reused, extended, written by one process at a time."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import time

import pytest
from helpers_fuzz import within
from helpers_model import PROCESSES, some_samples, tree
from helpers_store import Given, watched_syncs, writing

from rulerlib import files
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
    stated = {"num_samples": 5, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert about == {"task": "niah_single_2", "seed": 42, "length": 4096, **stated}
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
    assert "was made with knobs.depth = 0, and now knobs.depth = 50" in str(error.value)
    assert tree(tmp_path / "data") == before


def test_a_file_of_another_tool_is_left_alone(tmp_path):
    (tmp_path / "validation.jsonl").write_text("{}\n")
    with pytest.raises(RunMismatchError) as error:
        questions.write(Given(some_samples(2)), tmp_path)
    assert str(error.value) == (
        f"{tmp_path / 'validation.jsonl'} stands there without metadata.json, so another tool made"
        " it: choose another output folder."
    )
    assert questions.metadata(tmp_path / "validation.jsonl") == {}


ABOUT = '{"task": "niah_single_2", "seed": 42, "length": 4096, "num_samples": '


@pytest.mark.parametrize(
    "text", ["{", "[]", "\n", "[" * 10**5, ABOUT + '"5"}', ABOUT + "-1}", ABOUT + "true}"]
)
def test_damaged_metadata_is_named(tmp_path, text):
    questions.write(Given(some_samples(5)), tmp_path)
    (tmp_path / "metadata.json").write_text(text)
    with pytest.raises(DataError, match=r"metadata\.json: damaged"):
        questions.write(Given(some_samples(5)), tmp_path)


@pytest.mark.parametrize("left", [b"", b"\0" * 700])
@pytest.mark.parametrize("names", [["validation.jsonl"], ["metadata.json"], [*NAMES]])
def test_what_a_power_cut_took_is_written_anew(tmp_path, names, left):
    questions.write(Given(some_samples(5)), tmp_path)
    whole = {name: (tmp_path / name).read_bytes() for name in NAMES}
    for name in names:
        (tmp_path / name).write_bytes(left)
    questions.write(Given(some_samples(3)), tmp_path)
    questions.write(Given(some_samples(5)), tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == whole


@pytest.mark.parametrize("small", [True, False])
def test_questions_that_take_time_to_make_outlive_a_power_cut(tmp_path, small, monkeypatch):
    synced = watched_syncs(tmp_path, monkeypatch)
    monkeypatch.setattr(questions, "SMALL", 10**6 if small else 10**3)
    questions.write(Given(some_samples(5)), tmp_path)
    assert synced() == ([] if small else ["metadata.json", "", "validation.jsonl", ""])


def test_a_changed_byte_and_a_line_that_is_missing_are_noticed(tmp_path):
    path = questions.write(Given(some_samples(5)), tmp_path)
    whole = path.read_bytes()
    for damaged, reason in (
        (bytes([whole[0] ^ 1]) + whole[1:], "its bytes are not those that metadata"),
        (whole[:-5], "4 lines, but metadata.json says 5 samples"),
    ):
        path.write_bytes(damaged)
        for count in (5, 3, 9):
            with pytest.raises(DataError, match=rf"damaged \({reason}"):
                questions.write(Given(some_samples(9)), tmp_path, count)


def test_a_folder_of_before_there_was_a_digest_is_reused(tmp_path):
    path = questions.write(Given(some_samples(5)), tmp_path)
    about = {k: v for k, v in questions.metadata(path).items() if k != "sha256"}
    files.write_object(tmp_path / "metadata.json", about)
    before = path.stat().st_mtime_ns
    assert questions.write(Given(some_samples(5)), tmp_path).stat().st_mtime_ns == before


@pytest.mark.parametrize("stated", [{}, {"num_samples": 0}])
@pytest.mark.parametrize("count", [1, 5])
def test_a_file_of_which_nothing_is_said_is_made_anew(tmp_path, stated, count):
    """As a writer leaves it that is killed between the samples and what it says of them."""
    path = questions.write(Given(some_samples(5)), tmp_path, count)
    whole = tree(tmp_path)
    files.write_object(tmp_path / "metadata.json", {**Given([]).metadata, **stated})
    assert questions.write(Given(some_samples(5)), tmp_path, count) == path
    assert tree(tmp_path) == whole


@pytest.mark.parametrize("name", ["metadata.json", "validation.jsonl"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    questions.write(Given(some_samples(5)), tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with within(20), pytest.raises(DataError, match="a pipe or a device"):
        questions.write(Given(some_samples(5)), tmp_path)


def test_what_the_disk_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    class Endless(Given):
        def __len__(self):
            return 10**15

    with pytest.raises(ParameterError, match=r"num_samples is 10{15}, .*GB, and .* has .*GB free"):
        questions.write(Endless(some_samples(5)), tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def die(dataset, folder, step):
    process = PROCESSES.Process(target=writing, args=(dataset, folder, step))
    process.start()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode


@pytest.mark.parametrize("standing", [0, 2], ids=["new", "extended"])
def test_killed_at_every_step_it_ends_with_the_same_bytes(tmp_path, standing):
    """Before each opening, renaming and removing of a file and each sample, in turn."""
    dataset = Given(some_samples(4))
    whole = bytes_of(tmp_path, dataset)
    for step in itertools.count(1):
        folder = tmp_path / str(step) / "data"
        if standing:
            questions.write(dataset, folder, standing)
        code = die(dataset, folder, step)
        # Whatever stands there is whole: nothing, the old, or the new.
        for file in folder.glob("[!.]*"):
            data = file.read_bytes()
            assert data.endswith(b"\n"), "no file is half there"
            if file.suffix == ".jsonl":
                assert whole["validation.jsonl"].startswith(data)
                assert data.count(b"\n") in (standing, 4)
        questions.write(Given(some_samples(4)), folder)
        assert visible(folder) == whole, step
        if code == 0:
            break
    assert step > 12


def test_the_second_writer_is_told(tmp_path):
    folder = tmp_path / "data"
    ready = PROCESSES.Event()
    slow = Given(some_samples(20), seconds=0.2)
    first = PROCESSES.Process(target=writing, args=(slow, folder, 0, ready))
    first.start()
    assert ready.wait(300)
    until = time.monotonic() + 60
    while not list(folder.glob(".validation.jsonl.*.unfinished")):
        assert time.monotonic() < until
        time.sleep(0.01)
    with pytest.raises(BusyError, match=f"process {first.pid} on"):
        questions.write(Given(some_samples(20)), folder, 5)
    first.kill()
    first.join()
    questions.write(Given(some_samples(20)), folder, 5)
    assert visible(folder) == bytes_of(tmp_path, Given(some_samples(5)))


@pytest.mark.parametrize(
    ("was", "now", "named"),
    [
        ({"dataset": {"seed": 1}}, {"dataset": {"seed": 2}}, "dataset.seed = 1, and now"),
        ({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": 1, "d": 3}}}, "a.b.d = 2, and now"),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, "a.c = None, and now"),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, "a.c = 2, and now"),
        ({"a": {"b": None}}, {"a": {}}, "a = {'b': None}, and now a = {} is"),
        ({"a": {"b": 1}}, {"a": 3}, "a = {'b': 1}, and now a = 3 is"),
        ({"a": 3}, {"a": {"b": 1}}, "a = 3, and now a = {'b': 1} is"),
        ({}, {"dataset": {}}, "dataset = None, and now"),
        ({"dataset": {}}, {"dataset": {"queries_per_context": 2}}, "queries_per_context = 1, and"),
        ({"dataset": {"queries_per_context": 2}}, {"dataset": {}}, "queries_per_context = 2, and"),
        ({}, {"queries_per_context": 2}, "queries_per_context = 1, and now"),
        ({"cell": {}}, {"cell": {"seed": 43}}, "cell.seed = 42, and now cell.seed = 43 is"),
        ({"cell": {"seed": 43}}, {"cell": {}}, "cell.seed = 43, and now cell.seed = 42 is"),
    ],
)
def test_the_innermost_setting_that_differs_is_named(tmp_path, was, now, named):
    with pytest.raises(RunMismatchError) as error:
        questions.compare(tmp_path, was, now)
    assert str(error.value).startswith(f"{tmp_path} was made with ")
    assert named in str(error.value)
    assert str(error.value).endswith(
        " is asked for: choose another output folder, or delete this one."
    )
    questions.compare(tmp_path, was, was)
    # A default may be left unsaid.
    questions.compare(tmp_path, {**was, "queries_per_context": 1}, was)
    questions.compare(tmp_path, was, now, ignore=tuple(now))


def test_the_size_on_disk_is_judged_by_the_first_sample():
    class Costly(Given):
        def __iter__(self):
            yield self.samples[0]
            raise AssertionError("a second sample was made")

    first, second = (Sample(index, "ø" * 100, ["1"]) for index in range(2))
    assert questions.size(Costly([first, second]), 7) == 7 * len(first.to_line())
    assert questions.size(Given([]), 5) == 0


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
        ({"outputs": [""]}, "the reference '' is blank, so that any answer would match; give the"),
        ({"outputs": ["b", " \t"]}, r"the reference ' \t' is blank"),
        ({"outputs": ["\u00a0"]}, r"the reference '\xa0' is blank"),
        ({"outputs": ["&nbsp;"]}, "the reference '&nbsp;' is blank"),
        ({"golds": [["b", ""]]}, "the reference '' is blank"),
        ({"outputs": []}, "'outputs' is empty; give at least one reference answer."),
        ({"input": "x \ud83d"}, r"the field 'input' holds half of a surrogate pair (\ud83d);"),
        ({"outputs": ["\udc00"]}, r"the field 'outputs' holds half of a surrogate pair (\udc00);"),
        ({"answer_prefix": "\ud83d"}, "the field 'answer_prefix' holds half"),
        ({"facts": {"unit": "\ud83d"}}, "the field 'facts' holds half"),
        (
            {"length": 0},
            "'length' is missing or not positive; add it, or name a folder",
        ),
        ({"length": -5}, "'length' is missing or not positive"),
    ],
)
def test_samples_that_cannot_be_asked_are_named_by_file_and_line(tmp_path, bad, sentence):
    path = put(tmp_path / "mine" / "vt" / "validation.jsonl", {"length": 9}, {"length": 9, **bad})
    with pytest.raises(DataError) as error:
        questions.find(str(tmp_path), ["vt"])
    assert str(error.value).startswith(f"{path}, line 2: {sentence}")
    assert "\n" not in str(error.value)


def test_a_whole_emoji_written_as_two_escapes_is_read(tmp_path):
    path = put(tmp_path / "9" / "vt" / "validation.jsonl", {"input": "\U0001f600"})
    assert "\\ud83d\\ude00" in path.read_text(encoding="utf-8")
    assert questions.find(str(tmp_path), ["vt"]) == {("vt", 9): path}


def test_a_length_is_needed_only_where_no_folder_names_it(tmp_path):
    path = put(tmp_path / "4096" / "vt" / "validation.jsonl", {}, {})
    assert questions.find(str(tmp_path), ["vt"]) == {("vt", 4096): path}
    path = put(tmp_path / "mine" / "vt" / "validation.jsonl", {})
    with pytest.raises(DataError, match=r", line 1: 'length' is missing .*4096/vt/validation"):
        questions.find(str(tmp_path / "mine"), ["vt"])


def test_a_file_without_samples_is_named(tmp_path):
    path = put(tmp_path / "4096" / "vt" / "validation.jsonl")
    with pytest.raises(DataError) as error:
        questions.find(str(tmp_path), ["vt"])
    assert str(error.value) == f"{path}: no samples."


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


def test_a_file_is_known_by_its_bytes_wherever_it_stands(tmp_path):
    first = put(tmp_path / "a" / "vt" / "validation.jsonl", {}, {})
    same = put(tmp_path / "b" / "vt" / "validation.jsonl", {}, {})
    other = put(tmp_path / "c" / "vt" / "validation.jsonl", {})
    assert questions.source(first) == questions.source(same) != questions.source(other)
    assert [questions.count(path) for path in (first, other)] == [2, 1]
