"""Questions on disk: whole or not there, reused, extended, written by one process at a time."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time

import pytest
from helpers_model import PROCESSES, some_samples, tree
from helpers_store import Given, writing

from rulerlib.dataset import Dataset
from rulerlib.errors import BusyError, DataError, ParameterError, RunMismatchError
from rulerlib.samples import Sample, read
from rulerlib.store import questions
from rulerlib.store.lock import alone

LONG = bool(os.environ.get("RULERLIB_LONG"))


def bytes_of(tmp_path, dataset, name="whole"):
    """The files of an undisturbed run."""
    questions.write(dataset, tmp_path / name)
    return tree(tmp_path / name)


def visible(folder):
    """The files of a folder without the lock that a killed process may leave."""
    return {name: data for name, data in tree(folder).items() if name != ".validation.jsonl.lock"}


# --- Written and reused ----------------------------------------------------------------------


def test_samples_and_metadata_are_written(tmp_path):
    path = questions.write(Given(some_samples(5)), tmp_path)
    assert path == tmp_path / "validation.jsonl"
    assert list(read(path, Sample)) == some_samples(5)
    about = questions.metadata(path)
    assert about == {"task": "niah_single_2", "seed": 42, "length": 4096, "num_samples": 5}
    assert sorted(tree(tmp_path)) == ["metadata.json", "validation.jsonl"]


def test_a_dataset_is_written_as_it_is(tmp_path):
    data = Dataset("niah_single_2", 600, "da", "words", num_samples=3)
    path = questions.write(data, tmp_path)
    assert list(read(path, Sample)) == list(data)
    assert questions.metadata(path) == {**data.metadata, "num_samples": 3}


def test_what_stands_there_is_reused(tmp_path):
    path = questions.write(Given(some_samples(5)), tmp_path)
    before = path.stat()

    class Unmade(Given):
        def __iter__(self):
            raise AssertionError("a sample was made")

    for count in (None, 3, 5, 9):
        questions.write(Unmade(some_samples(5)), tmp_path, count)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_folder_that_is_only_read_is_reused(tmp_path):
    questions.write(Given(some_samples(5)), tmp_path)
    with alone(tmp_path / "validation.jsonl"):
        questions.write(Given(some_samples(5)), tmp_path)


def test_more_samples_extend_the_file(tmp_path):
    for count in (2, 5, 3, 9):
        before = tree(tmp_path / "growing").get("validation.jsonl", b"")
        path = questions.write(Given(some_samples(9)), tmp_path / "growing", count)
        assert path.read_bytes().startswith(before)
    assert tree(tmp_path / "growing") == bytes_of(tmp_path, Given(some_samples(9)))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"seed": 43}, "seed = 42, and now seed = 43"),
        ({"knobs": {"depth": 50}}, "knobs.depth = 0, and now knobs.depth = 50"),
        ({"queries_per_context": 4}, "queries_per_context = 1"),
        ({"system_prompt": "Be brief."}, "system_prompt = None, and now system_prompt = 'Be"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_other_settings_are_refused_by_name(tmp_path, changed, named, turned):
    knobs = {"knobs": {"depth": 0}}
    first, second = Given(some_samples(2), **knobs), Given(some_samples(2), **{**knobs, **changed})
    if turned:
        first, second, named = second, first, named.split(" = ")[0]
    before = bytes_of(tmp_path, first, "data")
    with pytest.raises(RunMismatchError) as error:
        questions.write(second, tmp_path / "data")
    assert f"was made with {named}" in str(error.value)
    assert tree(tmp_path / "data") == before


def test_what_is_noted_only_is_not_compared(tmp_path):
    questions.write(Given(some_samples(2), rulerlib="0.1", tokenizer="a"), tmp_path)
    questions.write(Given(some_samples(2), rulerlib="0.2", tokenizer="b"), tmp_path)


def test_a_file_of_another_tool_is_left_alone(tmp_path):
    (tmp_path / "validation.jsonl").write_text("{}\n")
    with pytest.raises(RunMismatchError, match="without metadata"):
        questions.write(Given(some_samples(2)), tmp_path)
    assert questions.metadata(tmp_path / "validation.jsonl") == {}


# --- Damage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 5, 300])
def test_a_file_that_was_cut_is_named(tmp_path, cut):
    path = questions.write(Given(some_samples(5)), tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DataError, match=r"damaged \(\d lines, but metadata.json says 5 samples\)"):
        questions.write(Given(some_samples(5)), tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "", '{"num_samples": "5"}', "[" * 10**5])
def test_damaged_metadata_is_named(tmp_path, text):
    path = questions.write(Given(some_samples(5)), tmp_path)
    if "num" in text:
        text = json.dumps({**questions.metadata(path), **json.loads(text)})
    (tmp_path / "metadata.json").write_text(text)
    with pytest.raises(DataError, match=r"metadata\.json: damaged"):
        questions.write(Given(some_samples(5)), tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="a file that can be written"):
        questions.write(Given(some_samples(2)), tmp_path / "file" / "data")


# --- Killed, and going on --------------------------------------------------------------------


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


def test_killed_again_and_again_it_ends_with_the_same_bytes(tmp_path):
    dataset = Given(some_samples(4))
    whole = bytes_of(tmp_path, dataset)
    for step in range(1, 30):
        die(dataset, tmp_path / "data", step)
    questions.write(dataset, tmp_path / "data")
    assert visible(tmp_path / "data") == whole


def test_a_killed_writer_s_settings_bind_nobody(tmp_path):
    for step in itertools.count(1):
        folder = tmp_path / str(step) / "data"
        code = die(Given(some_samples(4)), folder, step)
        if (folder / "validation.jsonl").exists():
            assert step > 5
            break
        assert code != 0
        other = Given(some_samples(4), seed=43)
        questions.write(other, folder)
        assert questions.metadata(folder / "validation.jsonl")["seed"] == 43


@pytest.mark.slow
def test_killed_at_random_it_ends_with_the_same_bytes(tmp_path):
    rng = random.Random(5)
    dataset = Given(some_samples(30, size=20_000), seconds=0.001)
    whole = bytes_of(tmp_path, dataset)
    kills = 0
    while kills < (1000 if LONG else 60):
        folder = tmp_path / f"data-{kills}"
        if rng.random() < 0.5:
            questions.write(Given(dataset.samples), folder, rng.randrange(1, 30))
        ready = PROCESSES.Event()
        process = PROCESSES.Process(target=writing, args=(dataset, folder, 0, ready))
        process.start()
        assert ready.wait(300)
        time.sleep(rng.uniform(0, 0.06))
        process.kill()
        process.join(60)
        kills += process.exitcode != 0
        questions.write(Given(dataset.samples), folder)
        assert visible(folder) == whole
        for path in folder.iterdir():
            path.unlink()


# --- Two writers -----------------------------------------------------------------------------


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


def several(dataset, folder, counts):
    """Write again and again, and be told at times that another is at it."""
    for count in counts:
        for _ in range(1000):
            try:
                questions.write(dataset, folder, count)
                break
            except BusyError:
                time.sleep(0.001)


def test_two_writers_of_different_sizes_end_well(tmp_path):
    """The file never has fewer samples than its metadata says."""
    dataset = Given(some_samples(40))
    folder = tmp_path / "data"
    orders = [range(1, 41, 2), range(2, 41, 2)]
    writers = [PROCESSES.Process(target=several, args=(dataset, folder, each)) for each in orders]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        path = folder / "validation.jsonl"
        if path.exists():
            stated = questions.metadata(path)["num_samples"]
            assert path.read_bytes().count(b"\n") >= stated
        time.sleep(0.002)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert visible(folder) == bytes_of(tmp_path, dataset)
