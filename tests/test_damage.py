"""Damaged folders of runs: the same numbers, or one sentence, and never other numbers.

Every damage is done to a copy of a small run, which is then read by the analysis and asked again.
What comes of it is one of four kinds: the numbers are the same, one sentence says what is wrong,
Python's own error comes up, or the numbers are others and nothing says so. The last two must not
happen.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers_model import Knowing

from conftest import tries
from rulerlib import analysis, explore
from rulerlib.dataset import Dataset
from rulerlib.errors import RulerError
from rulerlib.predict import predict
from rulerlib.store import questions
from rulerlib.store.answers import settings_path
from rulerlib.store.cell import Cell
from rulerlib.submit import folder, pack

CELLS = [
    Cell(model, task, language, length)
    for model in ("one", "other")
    for language in ("da", "en")
    for length in (400, 500)
    for task in ("niah_single_2", "vt")
]


def questions_of(cell: Cell) -> Dataset:
    return Dataset(cell.task, cell.length, cell.language, "words", num_samples=6)


def ask(root: Path, cell: Cell) -> None:
    """Ask what was not asked yet; each cell has other answers."""
    data, number = questions_of(cell), CELLS.index(cell)
    path = questions.write(data, cell.questions(root).parent)
    engine = Knowing([data])
    for text, sample in zip(engine.answers, data, strict=True):
        right = random.Random(f"{number} {sample.index}").random() < 0.2 + 0.05 * number
        engine.answers[text] = " ".join(sample.outputs) if right else f"nej {number}"
    predict(path, engine, cell.answers(root), cell=cell.settings())


def numbers(root: Path) -> str:
    """Return all that tables and figures are made of."""
    table = analysis.scores(analysis.read_predictions(root))
    names = ["model", "language", "task", "length", "index", "measure", "value", "depths"]
    tables = [table[names], analysis.accuracy(table), analysis.by_length(table, resamples=2)]
    return "".join(one.to_json(orient="split") for one in tables)


def resumed(root: Path) -> str:
    """Ask all cells once more, as a run does that goes on, and return the numbers."""
    for cell in CELLS:
        ask(root, cell)
    return numbers(root)


def explored(root: Path) -> str:
    """Return the numbers and answers of the explorer."""
    out = root.parent / "explored"
    shutil.rmtree(out, ignore_errors=True)
    explore.write(root, out)
    shown = [out / "cells.json", *sorted(out.glob("answers/*/0.json"))]
    return "".join(path.read_text("utf-8") for path in shown)


def packed(root: Path) -> str:
    """Return the scores of both models as they are handed in."""
    out = root.parent / "packed"
    shutil.rmtree(out, ignore_errors=True)
    submissions = [folder.read(pack(root / model, out)) for model in ("one", "other")]
    return "".join(one.table()["value"].to_csv() for one in submissions)


# --- Damages -------------------------------------------------------------------------------------


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def line_of(rng: random.Random, path: Path, change) -> None:
    """Change one line of a file of answers."""
    lines = lines_of(path)
    at = rng.randrange(len(lines))
    path.write_bytes(b"".join([*lines[:at], change(lines[at]), *lines[at + 1 :]]))


def other(rng: random.Random, root: Path, cell: Cell, *names: str) -> Path:
    """Return the answers of another cell, which differs in one of some names alone."""
    name = rng.choice(names or ("model", "language", "length", "task"))
    (second,) = (
        one
        for one in CELLS
        if [field for field in ("model", "language", "length", "task")
            if getattr(one, field) != getattr(cell, field)] == [name]
    )  # fmt: skip
    return second.answers(root)


def swap(first: Path, second: Path) -> None:
    before = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(before)


def flip(rng: random.Random, text: bytes, start: int, end: int) -> bytes:
    """Return a text with one letter or digit in a range replaced by another one."""
    places = [at for at in range(start, end) if text[at : at + 1].isalnum()]
    at = rng.choice(places or [start])
    allowed = b"0123456789" if text[at : at + 1].isdigit() else b"abcdefghijklmnopqrstuvwxyz"
    letter = rng.choice([one for one in allowed if one != text[at]])
    return text[:at] + bytes([letter]) + text[at + 1 :]


def flipped(field: str):
    """Return a damage that flips a letter in a field of one answer."""

    def damage(rng: random.Random, root: Path, cell: Cell) -> None:
        def change(line: bytes) -> bytes:
            start = line.index(b'"%s": ' % field.encode()) + len(field) + 4
            value = json.JSONDecoder().raw_decode(line[start:].decode("latin-1"))[1]
            return flip(rng, line, start, start + value)

        line_of(rng, cell.answers(root), change)

    return damage


def field(change):
    """Return a damage that changes the fields of one answer and writes it as JSON again."""

    def damage(rng: random.Random, root: Path, cell: Cell) -> None:
        def again(line: bytes) -> bytes:
            values = json.loads(line)
            part = rng.choice([values, values["others"]])
            change(rng, part, rng.choice([name for name in part if name != "crc32"]))
            return json.dumps(values, ensure_ascii=False).encode() + b"\n"

        line_of(rng, cell.answers(root), again)

    return damage


def retyped(rng: random.Random, values: dict, name: str) -> None:
    values[name] = rng.choice([None, [1], {"a": 1}, "text", 1.5, -1, True, 10**30])


def setting(change):
    """Return a damage that changes the settings beside some answers."""

    def damage(rng: random.Random, root: Path, cell: Cell) -> None:
        path = settings_path(cell.answers(root))
        values = json.loads(path.read_bytes())
        parts = [values, *(values[name] for name in ("cell", "dataset"))]
        part = rng.choice(parts)
        change(rng, part, rng.choice([name for name in part if name != "sha256"]))
        path.write_text(json.dumps(values, ensure_ascii=False, indent=2) + "\n", "utf-8")

    return damage


def of_cells(change, settings: bool = False, answers: bool = True):
    """Return a damage that mixes the files of two cells."""

    def damage(rng: random.Random, root: Path, cell: Cell) -> None:
        first, second = cell.answers(root), other(rng, root, cell)
        if answers:
            change(first, second)
        if settings:
            change(settings_path(first), settings_path(second))

    return damage


def of_lines(change):
    """Return a damage that orders the lines of a file otherwise, drops or repeats them."""

    def damage(rng: random.Random, root: Path, cell: Cell) -> None:
        path = cell.answers(root)
        path.write_bytes(b"".join(change(rng, lines_of(path))))

    return damage


def cut(rng: random.Random, root: Path, cell: Cell) -> None:
    path = cell.answers(root)
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def flipped_setting(rng: random.Random, root: Path, cell: Cell) -> None:
    path = settings_path(cell.answers(root))
    content = path.read_bytes()
    path.write_bytes(flip(rng, content, 0, len(content)))


def flipped_anywhere(rng: random.Random, root: Path, cell: Cell) -> None:
    line_of(rng, cell.answers(root), lambda line: flip(rng, line, 0, len(line) - 1))


DAMAGES = {
    "answers swapped": of_cells(swap),
    "answers copied": of_cells(lambda first, second: shutil.copyfile(first, second)),
    "answers appended": of_cells(lambda a, b: a.write_bytes(a.read_bytes() + b.read_bytes())),
    "some answers of another cell": of_cells(
        lambda a, b: a.write_bytes(b"".join([*lines_of(a)[:3], *lines_of(b)[3:]]))
    ),
    "settings swapped": of_cells(swap, settings=True, answers=False),
    "settings copied": of_cells(shutil.copyfile, settings=True, answers=False),
    "answers and settings swapped": of_cells(swap, settings=True),
    "answers and settings copied": of_cells(shutil.copyfile, settings=True),
    "settings removed": lambda rng, root, cell: settings_path(cell.answers(root)).unlink(),
    "cut off": cut,
    "last lines removed": of_lines(lambda rng, lines: lines[: rng.randrange(len(lines))]),
    "a line removed": of_lines(lambda rng, lines: rng.sample(lines, len(lines) - 1)),
    "a line twice": of_lines(lambda rng, lines: [*lines, rng.choice(lines)]),
    "lines in another order": of_lines(lambda rng, lines: rng.sample(lines, len(lines))),
    "a letter of the answer": flipped("pred"),
    "a letter of the prompt": flipped("input"),
    "a letter of the gold": flipped("outputs"),
    "a digit of the index": flipped("index"),
    "a letter of a line": flipped_anywhere,
    "a letter of the settings": flipped_setting,
    "a field removed": field(lambda rng, values, name: values.pop(name)),
    "a field of another type": field(retyped),
    "a setting removed": setting(lambda rng, values, name: values.pop(name)),
    "a setting of another type": setting(retyped),
}  # fmt: skip


# --- What comes of it ----------------------------------------------------------------------------


def kind(read, root: Path, wanted: str) -> str:
    """Return which of four things comes of reading a folder."""
    try:
        result = read(root)
    except RulerError as error:
        return "sentence" if "\n" not in str(error) else f"not one sentence ({error})"
    except Exception as error:
        return f"traceback ({error!r})"
    return "same numbers" if result == wanted else "SILENT"


def tried(run: Path, count: int, seed: int, *readers: Callable[[Path], str]) -> None:
    """Damage copies of a run, each kind of damage as often, and check what comes of it."""
    wanted = {read: read(run) for read in readers}
    came = Counter[tuple[str, str, str]]()
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        name = [*DAMAGES][number % len(DAMAGES)]
        copy = run.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy)
        DAMAGES[name](rng, copy, rng.choice(CELLS))
        # Asking again mends the folder, and so comes last.
        for read in readers:
            came[read.__name__, name, kind(read, copy, wanted[read])] += 1
    for (reader, name, result), times in sorted(came.items()):
        print(f"{reader:10} {name:32} {result:14} {times}")
    assert {result for *_, result in came} <= {"same numbers", "sentence"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage") / "run"
    for cell in CELLS:
        ask(folder, cell)
    return folder


def test_a_damaged_folder_gives_the_same_numbers_or_a_sentence(run):
    tried(run, len(DAMAGES), 1, numbers, resumed)


@pytest.mark.long
def test_no_damaged_folder_of_520_gives_other_numbers(run):
    tried(run, tries(520), 2, numbers, explored, packed, resumed)
