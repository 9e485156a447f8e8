"""Files damaged at random: every reader works or says one sentence, and no number changes unsaid.

What is drawn depends on the number of the case alone, so that a case that fails can be tried by
itself: ``try_damage(1234, workplace)``.
"""

from __future__ import annotations

import functools
import json
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers_fuzz import damaged, outcome
from helpers_model import Parrot

from conftest import tries
from rulerlib import analysis, show, sources
from rulerlib.dataset import Dataset
from rulerlib.predict import predict
from rulerlib.store import answers, questions

SECONDS = 60
"""What one case may take of a processor; nearly all take less than a tenth of a second."""


def check(numbers: range, folder: Path) -> None:
    """Try the cases of some numbers: each is done, or refused in one sentence."""
    broken, counts = [], Counter()
    for number in numbers:
        what, error = outcome(functools.partial(try_damage, number, folder), SECONDS)
        counts[what if error is None else "broken"] += 1
        if error is not None:
            trace = traceback.format_exception(error)
            broken.append(f"try_damage({number}): {what}\n{''.join(trace[-3:])[-1500:]}")
    assert not broken, f"{len(broken)} of {len(numbers)} broke:\n" + "\n".join(broken[:10])
    # A tenth succeeds and a tenth is refused; of a few that follow it may be none.
    least = len(numbers) // 10 - (20 if numbers.start else 0)
    assert min(counts["done"], counts["refused"]) >= least, counts


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with a valid file of each kind that is read."""
    folder = tmp_path_factory.mktemp("fuzz")
    make_workplace(folder)
    return folder


def make_workplace(folder: Path) -> None:
    """Write a valid file of each kind below a folder."""
    elements = {"oxygen": "8", "iron": "26", "gold": "79", "lead": "82"}
    articles = [
        {"title": "A", "paragraphs": [{"context": f"Element {number} is {name}.", "qas": [
            {"question": f"Which is {name}?", "answers": [{"text": number}]},
            {"question": f"What is element {number}?", "answers": [{"text": name}]}]}]}
        for name, number in elements.items()
    ]  # fmt: skip
    (folder / "squad.json").write_text(json.dumps({"version": "1", "data": articles}))
    data = Dataset("niah_multikey_1", 600, "da", "words", num_samples=6)
    path = questions.write(data, folder / "runs" / "m" / "da" / "600" / "data" / "niah_multikey_1")
    about = {"model": "m", "language": "da", "task": "niah_multikey_1", "length": 600}
    pred = folder / "runs" / "m" / "da" / "600" / "pred" / "niah_multikey_1.jsonl"
    predict(path, Parrot(), pred, cell=about)


def ask(path: Path) -> None:
    """Put them to a model, and score what it says."""
    pred = path.parents[2] / "pred" / f"{path.parent.name}.jsonl"
    predict(path, Parrot(), pred)
    look(path.parents[5])


def rewrite(path: Path) -> None:
    """A damaged file is not taken for the whole one."""
    data = Dataset("niah_multikey_1", 600, "da", "words", num_samples=6)
    whole = "".join(sample.to_json() + "\n" for sample in data).encode()
    questions.write(data, path.parent)
    assert path.read_bytes().startswith(whole), "damaged questions are used"


def look(runs: Path) -> None:
    """What the notebook of the analysis does, without its figures."""
    table = analysis.scores(analysis.read_predictions(runs))
    _ = show.table(analysis.overview(table)), analysis.summary(table, 50, {}, resamples=100)
    _ = analysis.by_length(table, resamples=100), analysis.accuracy(table)
    _ = analysis.by_depth(table, 10), analysis.errors(table)
    _ = show.answers(analysis.error_examples(table, 1))


def look_at_ours(path: Path) -> None:
    """What is scored is what was answered, each sample once."""
    runs = path.parents[4]
    was = answers.read_predictions(path.with_suffix(".whole"))
    for prediction in answers.read_predictions(path):
        same = [each for each in was if each.index == prediction.index]
        assert len(same) <= 1
        was = [each for each in was if each.index != prediction.index]
    look(runs)


def search(path: Path) -> None:
    source = sources.open_source(str(path))
    for index in range(source.num_questions):
        _ = source.question(index), source.related(index)
    _ = source.document(0), source.digest
    knobs = {"source": str(path), "num_documents": 2, "hops": 1}
    _ = Dataset("qa_1", 300, "en", "words", num_samples=2, knobs=knobs)[0]


DATA = "runs/m/da/600/data/niah_multikey_1"
PRED = "runs/m/da/600/pred/niah_multikey_1"
READERS: list[tuple[str, Callable[[Path], None]]] = [
    (f"{DATA}/validation.jsonl", ask),
    (f"{DATA}/validation.jsonl", rewrite),
    (f"{PRED}.jsonl", look_at_ours),
    ("squad.json", search),
]
"""Each kind of file, and what is done with it."""


def try_damage(number: int, workplace: Path) -> None:
    """Damage a file in a copy of the workplace, and read it."""
    rng = random.Random(f"damage {number}")
    name, reader = READERS[number % len(READERS)]
    top = Path(name).parts[0].partition(".")[0]
    copy = workplace.parent / "damaged"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for each in workplace.iterdir():
        if each.name.partition(".")[0] == top:
            (shutil.copytree if each.is_dir() else shutil.copy)(each, copy / each.name)
    path = copy / name
    whole = path.read_bytes()
    changed, _ = damaged(whole, rng)
    path.write_bytes(changed)
    if reader is look_at_ours:
        path.with_suffix(".whole").write_bytes(whole)
    reader(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("whole", [None, pytest.param(2_000, marks=pytest.mark.long)])
def test_files_damaged_at_random(whole, workplace):
    check(range(60) if whole is None else range(60, 60 + tries(whole - 60)), workplace)


@pytest.mark.parametrize("number", range(len(READERS)))
def test_the_whole_files_are_read(number, workplace, monkeypatch):
    """What the damaged ones are held against works, and so does what reads it."""
    monkeypatch.setattr("test_fuzz.damaged", lambda data, rng: (data, "no damage"))
    try_damage(number, workplace)
