"""Answers that were handed in become runs again, so that notebooks show them and nothing is asked.

::

    python -m book.stored "book/results/submitted/smollm2+dtype=float32" runs
    papermill notebooks/analysis.ipynb runs/analysis.ipynb -p runs runs

The questions are made again from the settings; each must be the one that was answered. What
stands in the folder of runs afterwards is what the run had written that was packed: a run with the
same settings finds every answer there, and one with more samples or lengths asks only the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from rulerlib import files, models
from rulerlib.errors import DataError
from rulerlib.models import Generation, Request
from rulerlib.runs import Run
from rulerlib.samples import Prediction
from rulerlib.store import answers
from rulerlib.submit.folder import AnsweredCell, hashed, read


class Stored:
    """An engine that repeats stored answers; all else is as in the engine that gave them."""

    def __init__(self, engine: models.Model, batch_size: int | None) -> None:
        self._engine, self._batch_size = engine, batch_size
        self.answers: dict[str, Prediction] = {}
        """The answer to each prompt, as the engine is given it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def batch_size(self, length: int) -> int | None:
        """Return how many prompts the engine answered together."""
        return self._batch_size

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """Yield the number of each request with the stored answer to it."""
        for number, request in enumerate(requests):
            answer = self.answers[request.prompt]
            read, written, finished = (
                answer.others[name] for name in ("prompt_tokens", "tokens_generated", "finished")
            )
            yield number, Generation(answer.pred, written, finished, prompt_tokens=read)


def unpack(
    folder: str | Path,
    runs: str | Path,
    lengths: Container[int] | None = None,
    languages: Container[str] | None = None,
) -> list[Path]:
    """Write the runs whose answers a submission holds, and return the files of answers.

    Parameters
    ----------
    folder
        Of the submission.
    runs
        The folder of runs; what is there already stays.
    lengths, languages
        In tokens, and codes; None stands for all that were handed in.

    Raises
    ------
    DataError
        If the submission is damaged, or its questions are not those that follow from its settings.
    ParameterError
        If the model's tokenizer cannot be found.
    """
    # One engine for all cells: a tokenizer takes longer to load than a cell takes to write.
    engines: dict[str, models.Model] = {}
    written = []
    for part in read(Path(folder)).cells:
        cell = part.cell
        known = languages is None or cell.language in languages
        if known and (lengths is None or cell.length in lengths):
            name = f"{cell.model} {cell.engine} {dict(cell.options)}"
            if name not in engines:
                engines[name] = models.load(cell.model, cell.engine, **cell.options)
            written.append(_write(part, runs, engines[name]))
    return written


def _write(part: AnsweredCell, runs: str | Path, engine: models.Model) -> Path:
    cell = part.cell
    stored = Stored(engine, part.settings["batch_size"])
    run = Run(
        tasks=cell.task, model=cell.model, engine=cell.engine, engine_options=dict(cell.options),
        language=cell.language, length=cell.length, num_samples=len(part.answers), seed=cell.seed,
        format=cell.format, decoding=cell.decoding, output=str(runs), loaded=stored,
    )  # fmt: skip
    if run.cells != (cell,):
        raise DataError(f"{part}: the settings are those of {run.cells[0].name}.")
    path = cell.answers(run.root)
    if path.exists():
        return path
    data = run.dataset(cell)
    for answer in part.answers:
        sample = data[answer.index]
        if hashed(sample.input) != answer.others["prompt"]:
            raise DataError(f"{part}, sample {answer.index}: another question was answered.")
        stored.answers[data.frame.prompt(sample.input, sample.answer_prefix)] = answer
    run.predict()
    # What gave the answers were the versions of then, not those of now.
    now = {**answers.read_settings(path), "versions": part.settings["versions"]}
    files.write_object(answers.settings_path(path), now)
    return path


if __name__ == "__main__":
    for written in unpack(*sys.argv[1:]):
        print(written)
