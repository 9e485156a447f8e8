r"""Pack and unpack the answers of a model.

``settings.json``
    The settings of each cell, one per line.
``answers.jsonl.gz``
    Every answer, one per line, with its cell and a hash of its prompt.

Answers can be unpacked into runs, which notebooks show without querying a model::

    python -m book.stored book/results/smollm2 runs
    papermill notebooks/analysis.ipynb runs/analysis.ipynb -p runs runs

The answers to the studies of pages are in ``book/results/studies/``. To measure and pack one::

    papermill notebooks/niah.ipynb runs/niah.ipynb -f params/book/niah.yaml
    python -m book.stored --pack runs/studies/niah/smollm2+dtype=float32 book/results/studies/niah

Answers to prompts without a chat template are in ``book/results/plain/``::

    papermill notebooks/niah.ipynb runs/plain.ipynb -p model smollm2 -p language en -p length 4096 \
        -p num_lengths 1 -p num_samples 25 -p tasks niah_multikey_1 -p chat false \
        -y 'engine_options: {dtype: float32}'
    python -m book.stored --pack runs/smollm2+dtype=float32+chat=false book/results/plain/smollm2

The questions are rebuilt from the settings, and their hashes are checked. A run with the same
settings finds every answer; a run with more samples or lengths queries the model only for the rest.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerlib import files, models, store
from rulerlib.errors import HALF, DataError
from rulerlib.models import Generation, Request
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.runs import Run
from rulerlib.samples import Prediction
from rulerlib.store import Cell
from rulerlib.tasks import all_tasks

RESULTS = Path(__file__).parent / "results"

STUDIES = RESULTS / "studies"
"""A folder for each page with a study."""

SETTINGS, ANSWERS = "settings.json", "answers.jsonl.gz"

# Fields of `Prediction.others` to keep.
KEPT = ("language", "repeat", "prompt_tokens", "tokens_generated", "finished", "cut_off")


@dataclass(frozen=True)
class AnsweredCell:
    """A cell with its settings and answers, without prompts.

    Attributes
    ----------
    cell
        The cell of the run.
    settings
        The content of the settings file of the answers.
    answers
        By index and repeat, with a hash of the prompt in ``others["prompt"]``.
    """

    cell: Cell
    settings: Mapping[str, Any]
    answers: list[Prediction]

    @property
    def key(self) -> tuple[str, str, int]:
        """Language, task and length."""
        return self.cell.language, self.cell.task, self.cell.length

    def __str__(self) -> str:
        language, task, length = self.key
        task = "+".join([task, *(f"{name}={value}" for name, value in self.cell.knobs.items())])
        return f"{language}, {task}, {length}"


def hashed(prompt: str) -> str:
    """Return the hash of a prompt.

    >>> hashed("What is it?")
    'bbff7b98d6da7061'
    """
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def folders() -> list[Path]:
    """Return the folders of all models with stored answers."""
    return sorted(path.parent for path in RESULTS.glob(f"*/{ANSWERS}"))


def pack(run: Path, folder: Path) -> None:
    """Pack a model's answers to tasks with default parameters and without own texts, or a study.

    Parameters
    ----------
    run
        The folder of the model, ``runs/<model>`` or ``runs/studies/<study>/<model>``.
    folder
        Folder of the two files, which are replaced. The same run gives the same bytes.

    Raises
    ------
    DataError
        If a file is damaged, or two files have answers to the same task, language and length.
    """
    cells, lines, names = [], [], set[str]()
    order = [*all_tasks()]

    def place(path: Path) -> tuple[str, int, int]:
        cell = store.read_settings(path)["cell"]
        return cell["language"], cell["length"], order.index(cell["task"])

    for path in sorted(run.glob("*/*/pred/*.jsonl"), key=place):
        settings = store.read_settings(path)
        own = {name for name in ("knobs", "texts", "memory", "study") if settings["cell"].get(name)}
        if own and "study" not in own:
            continue
        part = AnsweredCell(_cell(settings), settings, [])
        if str(part) in names:
            raise DataError(f"{path}: a second file of answers to {part}.")
        names.add(str(part))
        cells.append(json.dumps(settings, sort_keys=True))
        for answer in store.read_predictions(path):
            others = {name: answer.others[name] for name in KEPT if name in answer.others}
            others |= {"cell": str(part), "prompt": hashed(answer.input)}
            # UTF-8 cannot encode lone surrogates.
            pred = HALF.sub("\ufffd", answer.pred)
            lines.append(Prediction(answer.index, "", answer.outputs, pred, others).to_json())
    with files.replacing(folder / SETTINGS) as file:
        file.write('{"cells": [\n' + ",\n".join(cells) + "\n]}\n")
    with files.replacing(folder / ANSWERS) as file:
        text = "".join(f"{line}\n" for line in lines)
        file.buffer.write(gzip.compress(text.encode(), mtime=0))


def read(folder: str | Path) -> list[AnsweredCell]:
    """Return the stored cells of a folder."""
    listed = json.loads((Path(folder) / SETTINGS).read_text("utf-8"))["cells"]
    parts = {str(part): part for part in (AnsweredCell(_cell(each), each, []) for each in listed)}
    with gzip.open(Path(folder) / ANSWERS, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            answer = Prediction.from_json(line)
            parts[answer.others["cell"]].answers.append(answer)
    return list(parts.values())


def predictions(folder: Path) -> Iterator[tuple[dict[str, Any], Prediction]]:
    """Yield every stored answer of a folder with the settings of its cell."""
    for part in read(folder):
        about = part.cell.settings()
        for answer in part.answers:
            yield about, answer


def _cell(settings: Mapping[str, Any]) -> Cell:
    """Return the cell with the given settings."""
    about = dict(settings["cell"])
    room, drawn = about.pop("tokens_to_generate"), about.pop("decoding")
    drawn = {} if drawn == "greedy" else drawn
    about["decoding"] = Decoding(**drawn, tokens_to_generate=room)
    about["format"] = PromptFormat.from_settings(about["format"])
    # Recorded by earlier versions, which could cut long prompts; no stored prompt was cut.
    about.pop("allow_truncation", None)
    return Cell(**about)


class Stored:
    """An engine that repeats stored answers, with the settings of the original engine."""

    def __init__(self, engine: models.Model, batch_size: int | None) -> None:
        self._engine, self._batch_size = engine, batch_size
        self.answers: dict[str, Prediction] = {}
        """The answers by prompt."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def batch_size(self, length: int) -> int | None:
        """Return the batch size of the original run."""
        return self._batch_size

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """Yield the number of each request with its stored answer."""
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
    names: Container[str] | None = None,
) -> list[Path]:
    """Unpack the answers of a folder into runs, and return the files of answers.

    Parameters
    ----------
    folder
        Folder of a model's stored answers.
    runs
        Folder of runs; existing files stay.
    lengths, languages, names
        Lengths in tokens, language codes and names of tasks to unpack. Default: all.

    Raises
    ------
    DataError
        If the rebuilt questions differ from those that were answered.
    ParameterError
        If the model's tokenizer cannot be found.
    """
    # Load each engine once.
    engines: dict[str, models.Model] = {}
    written = []
    for part in read(folder):
        cell = part.cell
        wanted = ((languages, cell.language), (lengths, cell.length), (names, cell.task))
        if all(chosen is None or value in chosen for chosen, value in wanted):
            name = f"{cell.model} {cell.engine} {dict(cell.options)}"
            if name not in engines:
                engines[name] = models.load(cell.model, cell.engine, **cell.options)
            written.append(_write(part, runs, engines[name]))
    return written


def _write(part: AnsweredCell, runs: str | Path, engine: models.Model) -> Path:
    cell = part.cell
    stored = Stored(engine, part.settings["batch_size"])
    n, study = len(part.answers), dict[str, Any]()
    if cell.study:
        study = {"study": [{"task": cell.task, **cell.knobs}], "study_name": cell.study}
    run = Run(
        tasks=cell.task, model=cell.model, engine=cell.engine, engine_options=dict(cell.options),
        language=cell.language, length=cell.length, num_samples=n, seed=cell.seed,
        format=cell.format, decoding=cell.decoding, output=str(runs), loaded=stored,
        study_length=cell.length, study_samples=n, **study,
    )  # fmt: skip
    (own,) = run.study_cells or run.cells
    if own != cell:
        raise DataError(f"{part}: the settings are those of {own.name}.")
    path = cell.answers(run.root)
    if path.exists():
        return path
    data = run.dataset(cell)
    for answer in part.answers:
        sample = data[answer.index]
        if hashed(sample.input) != answer.others["prompt"]:
            raise DataError(
                f"{part}, sample {answer.index}: the stored answer is for another prompt."
            )
        stored.answers[data.frame.prompt(sample.input, sample.answer_prefix)] = answer
    run.ask(cell, n)
    # Record the versions that gave the answers.
    now = {**store.read_settings(path), "versions": part.settings["versions"]}
    files.write_object(store.settings_path(path), now)
    return path


if __name__ == "__main__":
    if sys.argv[1] == "--pack":
        pack(*map(Path, sys.argv[2:]))
    else:
        stored_folder, runs_folder = sys.argv[1:]
        for written in unpack(stored_folder, runs_folder):
            print(written)
