"""Submissions for the tests: honest ones, and the ways to tamper with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from helpers_model import Knowing, Parrot

from rulerlib.runs import Run

LENGTH, SAMPLES = 900, 6

Fault = Callable[[Path], object]


def write_run(root: Path, language: str, tasks: str = "ruler", **options: Any) -> Run:
    """Ask an engine that knows the answers, without any weights, and return the run."""
    own = {"length": LENGTH, "num_samples": SAMPLES, "loaded": Parrot(), **options}
    made = Run(tasks, output=str(root), language=language, **own)
    made = replace(made, loaded=Knowing(made.dataset(cell) for cell in made.cells))
    made.predict()
    return made


# --- Faults: what is done to a folder ----------------------------------------------------------


def edit(name: str, change: Callable[[str], str]) -> Fault:
    """A file whose text is changed."""

    def fault(path: Path) -> None:
        text = (path / name).read_text("utf-8")
        assert change(text) != text
        (path / name).write_text(change(text), "utf-8")

    return fault


def sub(name: str, pattern: str, by: str) -> Fault:
    """A file in which the first place of a pattern is replaced."""
    return edit(name, lambda text: re.sub(pattern, by, text, count=1, flags=re.MULTILINE))


def lines(name: str, change: Callable[[list[str]], list[str]]) -> Fault:
    """A file whose lines are changed."""
    return edit(name, lambda text: "".join(change(text.splitlines(keepends=True))))


def answer(**values: Any) -> Fault:
    """A first answer with other values."""
    return lines(
        "answers.jsonl",
        lambda all_: [json.dumps({**json.loads(all_[0]), **values}) + "\n", *all_[1:]],
    )


def about(change: Callable[[dict[str, Any]], object]) -> Fault:
    """Settings that are changed, and written as the command writes them."""

    def changed(text: str) -> str:
        values = json.loads(text)
        change(values)
        return json.dumps(values, indent=1, sort_keys=True) + "\n"

    return edit("settings.json", changed)


def cell(**values: Any) -> Fault:
    """Other settings of all cells."""
    return about(lambda values_: values_["settings"]["cell"].update(values))


def data(**values: Any) -> Fault:
    """Other settings of all questions."""
    return about(lambda values_: values_["settings"]["dataset"].update(values))


def without(*path: str) -> Fault:
    """Settings of which one is left out."""

    def change(values: dict[str, Any]) -> None:
        *outer, name = path
        for each in outer:
            values = values[each]
        del values[name]

    return about(change)


def _linked(path: Path) -> None:
    (path / "scores.csv").rename(path.parent / "scores.csv")
    (path / "scores.csv").symlink_to(path.parent / "scores.csv")


_SINGLE = "da, niah_single_1, 900"
_OTHERS = "which does not follow from settings.json, scores.csv and hashes.csv"

FAULTS: dict[str, tuple[Fault, str]] = {
    "a flipped score": (
        sub("scores.csv", "^(da,niah_single_1,900,1,)1", r"\g<1>0"),
        f"accuracy.csv: mean of {_SINGLE} is '0.6667', but 0.5 follows from scores.csv",
    ),
    "a flipped cut-off": (sub("scores.csv", "1$", "0"), _OTHERS),
    "a mean edited": (
        sub("accuracy.csv", "0.6667", "0.7667"), "is '0.7667', but 0.6667 follows from scores.csv"
    ),
    "an interval edited": (
        sub("averages.csv", r"\d\d\.\d+,,?\d", "99.9,1"), "averages.csv"
    ),
    "an effective length edited": (
        sub("summary.csv", "<900", "≥900"), "is '≥900', but <900 follows from scores.csv"
    ),
    "a row of a table left out": (
        lines("accuracy.csv", lambda all_: all_[:-1]), "25 rows, where 26 follow from scores.csv"
    ),
    "a column of a table renamed": (
        sub("accuracy.csv", "mean", "score"), "accuracy.csv: its columns are not language, task"
    ),
    "an answer edited": (
        answer(answer=" 1234567."), "the answer is not the one whose hash stands in hashes.csv"
    ),
    "a gold edited": (answer(gold=["1234567"]), "the gold answer is ["),
    "a prompt edited": (answer(prompt="0" * 64), "its prompt is not the one that rulerlib makes"),
    "an answer that was cut off": (answer(cut_off="answer"), "'cut_off' is 0, unlike in answers"),
    "another field of an answer": (answer(score=1), "line 1: its fields are not language, task"),
    "a number as a text": (answer(index="0"), "line 1: 'index' is '0'"),
    "a dropped sample": (
        lines("answers.jsonl", lambda all_: all_[1:]), f"answers.jsonl: {_SINGLE}, sample"
    ),
    "a duplicated sample": (
        lines("answers.jsonl", lambda all_: [all_[0], *all_]), "stands there 2 times"
    ),
    "samples in another order": (
        lines("answers.jsonl", lambda all_: all_[::-1]), "not in the order of the cells"
    ),
    "a sample of another cell": (answer(length=950), _OTHERS),
    "no JSON": (sub("answers.jsonl", "^{", "{{"), "answers.jsonl, line 1: not valid JSON"),
    "a hash edited": (sub("hashes.csv", r"\w{16}$", "0" * 16), _OTHERS),
    "a hash left out": (sub("hashes.csv", r"\w{16}$", ""), "5 hashes of 6 answers"),
    "half a hash": (sub("hashes.csv", r"\w{8}$", ""), "not hashes of 16 hexadecimal digits"),
    "a task left out of the settings": (
        about(lambda values: values["cells"].pop(8)), "vt, 900 is none of settings.json"
    ),
    "a task left out of the scores": (
        lines("scores.csv", lambda all_: all_[:-1]), "the cell en, qa_2, 900 is missing"
    ),
    "a task twice": (
        lines("scores.csv", lambda all_: [*all_, all_[-1]]), "en, qa_2, 900 stands there twice"
    ),
    "a cell twice": (
        about(lambda values: values["cells"].append(values["cells"][0])), "stands there twice"
    ),
    "more than all": (
        sub("scores.csv", "^(da,niah_single_1,900,1,)1", r"\g<1>2"),
        "'found' has digits other than 0 to 1",
    ),
    "a score left out": (
        sub("scores.csv", "^(da,vt,900,5,).", r"\1"), "'cut_off' is not a 0 or 1 for each answer"
    ),
    "no references": (sub("scores.csv", "^(da,vt,900,)5", r"\g<1>0"), "not a number of references"),
    "another seed": (
        about(lambda values: [values["settings"][part].update(seed=7)
                              for part in ("cell", "dataset")]), _OTHERS
    ),
    "two seeds": (cell(seed=7), "'dataset.seed' is 42, not 7"),
    "another knob": (cell(knobs={"depth": 50}), "'knobs' is {'depth': 50}; a table of models"),
    "cut prompts": (cell(allow_truncation=True), "'allow_truncation' is True; a table of models"),
    "no engine": (without("settings", "engine"), "'engine' is missing"),
    "no decoding": (without("settings", "decoding"), "'decoding' is missing"),
    "no versions": (without("settings", "versions"), "'versions' is missing"),
    "no version": (without("settings", "versions", "rulerlib"), "'versions.rulerlib' is missing"),
    "no tokenizer": (without("settings", "dataset", "tokenizer"), "'dataset.tokenizer' is missing"),
    "no seed": (without("settings", "cell", "seed"), "'cell.seed' is missing"),
    "a sequential plan": (
        about(lambda values: values["settings"].update(sequential={})), "a sequential plan decided"
    ),
    "settings in other words": (
        edit("settings.json", lambda text: text + " "), "not written as the command writes it"
    ),
    "another layout": (about(lambda values: values.update(submission=2)), "the layout is 2, not 1"),
    "no name": (without("name"), "the 'name' of the model is missing"),
    "another name": (
        about(lambda values: values.update(name="gpt-9")), "The folder has to be called gpt-9"
    ),
    "a claim in words": (about(lambda values: values.update(claimed="1M")), "'claimed' is '1M'"),
    "a file left out": (lambda path: (path / "hashes.csv").unlink(), "hashes.csv is missing"),
    "a file too many": (
        lambda path: (path / "more.bin").write_bytes(b""), "'more.bin' is none of the files"
    ),
    "a huge file": (
        lambda path: (path / "answers.jsonl").write_bytes(b" " * 16_000_001),
        "answers.jsonl: larger than 16,000,000 bytes",
    ),
    "not UTF-8": (
        lambda path: (path / "scores.csv").write_bytes(b"\xff"), "scores.csv: cannot be read"
    ),
    "a link": (_linked, "scores.csv is missing"),
}  # fmt: skip
"""What is done to an honest folder, and a part of the sentence that tells it."""
