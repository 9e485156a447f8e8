"""Answers that exist, which inspect_ai's model ``rulerlib/replay`` repeats without a network.

They can be scored and looked at there::

    inspect eval rulerlib/variable_tracking -T data=runs/lille/da/4096/data \\
        --model rulerlib/replay -M path=runs/lille/da/4096/pred
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rulerlib import paths
from rulerlib.errors import DataError, require
from rulerlib.export.inspect_ai import sha256
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Prediction
from rulerlib.store import answers


class StoredAnswers:
    """Answers that exist, found again by the question that they answer.

    Parameters
    ----------
    path
        A file of answers, ``pred/<task>.jsonl``, ours or one of NVIDIA's scripts, or a folder with
        such files somewhere below it.

    Raises
    ------
    ParameterError
        If there is none.
    DataError
        If a file is damaged, or two answers are there to one question.
    """

    def __init__(self, path: Any) -> None:
        layout = "a file pred/<task>.jsonl, or a folder with such files (-M path=...)"
        top = paths.named("path", path, layout)
        below = [*top.rglob("pred/*.jsonl")] or [*top.glob("*.jsonl")]
        files = [top] if top.is_file() else sorted(file for file in below if file.stem[0] != ".")
        require(files, "path", path, layout)
        self.path = path
        self._answers: dict[tuple[str, str], tuple[str, int, bool, Prediction]] = {}
        for file in files:
            self._read(file)

    def _read(self, file: Path) -> None:
        settings = answers.read_settings(file)
        form = PromptFormat.from_settings(settings)
        for record in answers.read_predictions(file):
            if record.repeat:
                continue
            others = record.others
            task = others.get("task") or file.stem.partition("+")[0]
            prefix = "" if form.answer_prefix == "none" else others.get("answer_prefix", "")
            bare = _bare(form.system_prompt or "", record.input, prefix)
            key = task, sha256(record.input)
            # Their prompts are long, and what is compared of them is a hash.
            kept = replace(record, input="", others={**others, "parts": []})
            before = self._answers.setdefault(key, (sha256(bare), len(bare), bool(settings), kept))
            if before[3].pred != record.pred:
                raise DataError(f"{file}: another answer to sample {record.index} stands beside.")

    def answer(self, messages: Sequence[tuple[str, Mapping[str, Any] | None]]) -> Prediction:
        """Return the stored answer to a prompt.

        Parameters
        ----------
        messages
            The text of each message, and its metadata.

        Raises
        ------
        DataError
            If the question is none of ours, or is not among those that were answered, or was asked
            in other words. White space does not count, nor does the answer prefix where the file
            does not say it.
        """
        which = next((about for _, about in messages if about and "input" in about), None)
        if which is None:
            raise DataError("rulerlib/replay answers the tasks of rulerlib alone.")
        name = f"sample {which['index']} of {which['task']}"
        stored = self._answers.get((which["task"], which["input"]))
        if stored is None:
            raise DataError(
                f"{self.path} holds no answer to {name} as it is asked here: choose the length,"
                " language, tokenizer, seed and knobs of that run, or its questions (-T data=...)."
            )
        digest, size, whole, prediction = stored
        prompt = _bare(*(text for text, _ in messages))
        if sha256(prompt if whole else prompt[:size]) != digest:
            raise DataError(
                f"{self.path} holds an answer to {name}, but the prompt was another one: its answer"
                " prefix or system prompt differ (-T answer_prefix=...)."
            )
        return prediction


def _bare(*texts: str) -> str:
    """Return texts as one, without white space: messages and plain text differ in it."""
    return "".join("".join(texts).split())
