"""Submissions for the tests: honest ones, and the ways to tamper with them."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from helpers_model import Knowing, Parrot

import rulerlib
from rulerlib.runs import Run
from rulerlib.submit.folder import ANSWERS, SETTINGS

LENGTH, SAMPLES = 900, 6

Fault = Callable[[Path], object]


def write_run(root: Path, language: str, tasks: str = "ruler", **options: Any) -> Run:
    """Ask an engine that knows the answers, without any weights, and return the run."""
    chosen = {"length": LENGTH, "num_samples": SAMPLES, "loaded": Parrot(), **options}
    run = Run(tasks, output=str(root), language=language, **chosen)
    run = replace(run, loaded=Knowing(run.dataset(cell) for cell in run.cells))
    run.predict()
    return run


def about(change: Callable[[dict[str, Any]], object]) -> Fault:
    """Settings that are changed."""

    def fault(path: Path) -> None:
        values = json.loads((path / SETTINGS).read_text("utf-8"))
        change(values)
        (path / SETTINGS).write_text(json.dumps(values), "utf-8")

    return fault


def of_cells(*path: str, **values: Any) -> Fault:
    """Other settings of all cells, in an inner part of them; None: without these."""

    def change(settings: dict[str, Any]) -> None:
        for part in settings["cells"]:
            for name in path:
                part = part[name]
            part.update(values)
            for name in [name for name in values if values[name] is None]:
                del part[name]

    return about(change)


def lines(change: Callable[[list[str]], list[str]]) -> Fault:
    """Answers whose lines are changed."""

    def fault(path: Path) -> None:
        text = gzip.decompress((path / ANSWERS).read_bytes()).decode()
        changed = "".join(change(text.splitlines(keepends=True)))
        assert changed != text
        (path / ANSWERS).write_bytes(gzip.compress(changed.encode(), mtime=0))

    return fault


def answer(others: dict[str, Any] | None = None, **values: Any) -> Fault:
    """A first answer with other values."""

    def change(all_: list[str]) -> list[str]:
        first = json.loads(all_[0]) | values
        first["others"] |= others or {}
        return [json.dumps(first) + "\n", *all_[1:]]

    return lines(change)


def forged(path: Path) -> None:
    """More is found than was asked for."""
    answer(outputs=[])(path)


def linked(path: Path) -> None:
    (path / ANSWERS).rename(path.parent / ANSWERS)
    (path / ANSWERS).symlink_to(path.parent / ANSWERS)


def longer_in_danish(path: Path) -> None:
    text = (path / SETTINGS).read_text("utf-8")
    (path / SETTINGS).write_text(text.replace('"da", "length": 900', '"da", "length": 1800'))
    lines(lambda all_: [re.sub(r'("da, \w+, )900', r"\g<1>1800", line) for line in all_])(path)


FIRST = "da, niah_single_1, 900"
_LINE = f"{ANSWERS}, line 1: "
_PROMPT = f"{ANSWERS}: {FIRST}, sample 0: its prompt is not the one that rulerlib makes"

FAULTS: dict[str, tuple[Fault, str]] = {
    "a forged reference": (answer(outputs=["1"]), f"{FIRST}, sample 0: the references are ['"),
    "a prompt of another sample": (answer({"prompt": "0" * 16}), _PROMPT),
    "no prompt": (answer({"prompt": None}), f"{_LINE}the hash of the prompt is missing"),
    "no references": (forged, f"{_LINE}there are no references"),
    "half a character": (answer(pred="\ud800"), f"{_LINE}there are no references, or there is hal"),
    "a number as a text": (answer(index="0"), f"{_LINE}the field 'index' is '0'"),
    "a cut-off in numbers": (answer({"cut_off": ""}), "or 'cut_off' is no word"),
    "a dropped answer": (lines(lambda all_: all_[1:]), f"{FIRST}, sample 0 is missing, or stands"),
    "an answer twice": (lines(lambda all_: [all_[0], *all_]), f"{FIRST}, sample 1 is missing"),
    "answers in another order": (lines(lambda all_: all_[::-1]), f"{FIRST}, sample 0 is missing"),
    "a sample six times": (
        lines(lambda all_: [*(re.sub(r'"prompt": "\w+', '"prompt": "0', line) for line in all_)]),
        "samples 0 and 1 are one and the same",
    ),
    "an answer to another cell": (
        answer({"cell": "da, vt, 950"}), f"{_LINE}the cell 'da, vt, 950' is none of settings.json"
    ),
    "no JSON": (lines(lambda all_: ["{", *all_]), f"{_LINE}not valid JSON"),
    "no answers to a cell": (
        lines(lambda all_: all_[:-SAMPLES]), f"{ANSWERS}: the cell en, trace, 900 is missing"
    ),
    "a task left out of the settings": (
        about(lambda values: values["cells"].pop(8)), "the cell 'da, vt, 900' is none of settings"
    ),
    "a cell twice": (
        about(lambda values: values["cells"].append(values["cells"][0])), f"{FIRST} stands there t"
    ),
    "no cells": (about(lambda values: values.update(cells={})), "the 'cells' are missing"),
    "another seed": (of_cells("cell", seed=7), "'dataset.seed' is 42, but 7 follows from the"),
    "another seed everywhere": (
        about(lambda values: [part[name].update(seed=7) for part in values["cells"]
                              for name in ("cell", "dataset")]), _PROMPT
    ),
    "a seed in words": (of_cells("cell", seed="7"), "are no settings of a cell (Parameter"),
    "an unknown setting": (of_cells("cell", colour="red"), "are no settings of a cell (TypeErr"),
    "another tokenizer": (
        of_cells("dataset", tokenizer="lille"), "'dataset.tokenizer_fingerprint' is '"
    ),
    "an unknown tokenizer": (
        of_cells("dataset", tokenizer="/none"), "cannot be made again. model is '/none"
    ),
    "another version": (
        of_cells("dataset", rulerlib="0.0.1", language_pack="0"),
        f"(made with rulerlib '0.0.1'; this is {rulerlib.__version__})",
    ),
    "another room": (of_cells(tokens_to_generate=7), "'tokens_to_generate' is not 128"),
    "another knob": (
        of_cells("cell", knobs={"depth": 50}), "'knobs' is {'depth': 50}; a table of models"
    ),
    "cut prompts": (of_cells("cell", allow_truncation=True), "'allow_truncation' is True; a table"),
    "two models": (
        about(lambda values: values["cells"][0]["cell"].update(model="b")),
        "answers of several models (b, lille)",
    ),
    "no engine": (of_cells(engine=None), "'engine' is missing"),
    "no versions": (of_cells(versions=None), "'versions.python' is missing"),
    "no version": (of_cells("versions", rulerlib=None), "'versions.rulerlib' is missing"),
    "no tokenizer": (of_cells("dataset", tokenizer=None), "'dataset.tokenizer' is missing"),
    "no seed": (of_cells("cell", seed=None), "'cell.seed' is missing"),
    "another layout": (about(lambda values: values.update(submission=1)), "not of the layout 2"),
    "no name": (about(lambda values: values.pop("name")), "the 'name' of the model is missing"),
    "another name": (
        about(lambda values: values.update(name="gpt-9")), "The folder has to be called gpt-9"
    ),
    "a claim in words": (about(lambda values: values.update(claimed="1M")), "'claimed' is '1M'"),
    "a length in one language": (longer_in_danish, "en was not asked at 1800; a table needs all"),
    "a file left out": (lambda path: (path / ANSWERS).unlink(), f"{ANSWERS} is missing"),
    "a forged table": (
        lambda path: (path / "summary.csv").write_text("model,effective\nlille,≥128K\n", "utf-8"),
        "'summary.csv' is none of the files of a submission",
    ),
    "answers that unpack to a huge file": (
        lambda path: (path / ANSWERS).write_bytes(gzip.compress(b" " * 200_000_001, 1)),
        f"{ANSWERS}: larger than 200,000,000 bytes",
    ),
    "not packed": (lambda path: (path / ANSWERS).write_bytes(b"{}"), f"{ANSWERS}: cannot be read"),
    "cut off": (
        lambda path: os.truncate(path / ANSWERS, 1000), f"{ANSWERS}: cannot be read"
    ),
    "not UTF-8": (
        lambda path: (path / SETTINGS).write_bytes(b"\xff"), f"{SETTINGS}: cannot be read"
    ),
    "a link": (linked, f"{ANSWERS} is missing"),
}  # fmt: skip
"""What is done to an honest folder, and a part of the sentence that tells it."""
