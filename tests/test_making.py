"""Writing many datasets: the same bytes from one process and from several, and none left half."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, MissingExtraError, ParameterError, RunMismatchError
from rulerlib.making import write_all
from rulerlib.store import questions

CELLS = [(task, length) for length in (700, 900) for task in ("vt", "niah_multikey_2", "fwe")]


def made(folder, num_samples=6, seed=42):
    """Datasets with their folders."""
    return [
        (
            Dataset(task, length, "en", "words", num_samples=num_samples, seed=seed),
            folder / str(length) / task,
        )
        for task, length in CELLS
    ]


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("jobs", [2, 3, 8])
def test_the_bytes_do_not_depend_on_the_number_of_processes(jobs, tmp_path):
    one, several = tmp_path / "one", tmp_path / "several"
    paths = write_all(made(several), jobs)
    assert [path.parent for path in paths] == [folder for _, folder in made(several)]
    write_all(made(one))
    assert files(one) == files(several)
    stamps = [path.stat().st_mtime_ns for path in paths]
    assert write_all(made(several), jobs) == paths
    assert [path.stat().st_mtime_ns for path in paths] == stamps, "what stands there is reused"


def test_an_error_of_another_process_is_the_same_sentence(tmp_path):
    write_all(made(tmp_path, seed=1)[-1:])
    with pytest.raises(RunMismatchError, match="was made with seed = 1, and now seed = 42"):
        write_all(made(tmp_path), 2)


@pytest.mark.parametrize(
    "error",
    [
        ParameterError("length", 3, "at least 700"),
        MissingExtraError("wordfreq", "words", "Making a list"),
        DataError("x: damaged."),
    ],
)
def test_errors_travel_between_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("jobs", [0, -1, "2", 1.5, True])
def test_a_number_of_processes_that_cannot_be_is_refused(jobs):
    with pytest.raises(ParameterError, match=r"jobs is .*, but must be a whole number"):
        write_all([], jobs)


def test_an_interrupt_ends_all_processes_and_leaves_nothing_half(tmp_path):
    code = (
        "from rulerlib.dataset import Dataset\n"
        "from rulerlib.making import write_all\n"
        "import pathlib, sys\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "write_all([(Dataset(task, 900, 'en', 'words', num_samples=100_000), folder / task)\n"
        "           for task in ('vt', 'fwe', 'niah_single_1')], 2)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    ended = time.monotonic() + 60
    while len([*tmp_path.rglob("*.unfinished")]) < 2 and time.monotonic() < ended:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert not [*tmp_path.rglob("validation.jsonl")]
    # Nobody is at it any more: what was begun is removed, and a whole file takes its place.
    path = questions.write(Dataset("vt", 900, "en", "words", num_samples=2), tmp_path / "vt")
    assert path.read_bytes().count(b"\n") == 2
    assert not [*(tmp_path / "vt").glob(".*")]
