"""Ask a model every question of a file and store its answers.

`rulerlib.store.Answers` stores and resumes them; this module decides what the model is asked, in
which batches, and what is recorded of each answer.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import itertools
import math
import platform
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm.std import tqdm

import rulerlib
from rulerlib.errors import DataError, ParameterError, whole_number
from rulerlib.models import Generation, Model, Request
from rulerlib.prompts import Decoding, Frame, PromptFormat, find_tag, split_thinking
from rulerlib.samples import OPTIONAL, Prediction, Sample, parts_to_data, read, writable
from rulerlib.store import Answers, read_metadata, read_settings

# The versions of these packages are recorded; another version may give other answers.
PACKAGES = ("torch", "transformers", "tokenizers", "vllm", "openai")

# The form of the progress bar, see `progress_bar`.
_FORMAT = "{desc}: {percentage:3.0f}%|{bar:24}| {elapsed}<{remaining}"

GREEDY = Decoding()

Asked = tuple[Sample, int]
"""A sample, and which of the answers to it is wanted, from 0."""


def predict(
    questions: str | Path,
    model: Model,
    answers: str | Path,
    format: PromptFormat | None = None,  # noqa: A002
    decoding: Decoding = GREEDY,
    num_samples: int | None = None,
    progress: tqdm | None = None,
    weight: float = 1.0,
    cell: Mapping[str, Any] | None = None,
) -> Path:
    """Ask a model every question of a file, and store its answers.

    Answers that are already stored are not asked for again.

    Parameters
    ----------
    questions
        A ``validation.jsonl``, made here or by NVIDIA's RULER.
    model
        An engine, see `rulerlib.models.load`.
    answers
        The file of answers, ``pred/<task>.jsonl``; its settings are in ``<task>.settings.json``.
    format
        The prompt format. If None, the one that the questions were made for. Thinking is stored in
        ``others``; only the rest of the answer is scored.
    decoding
        How tokens are chosen, and how many. Tokens for thinking come on top of
        ``tokens_to_generate``; those left over can be used by the answer.
    num_samples
        Ask only the first questions. Default: all.
    progress, weight
        A `progress_bar`, and how much each answer counts on it.
    cell
        The settings of the cell, to be recorded with the answers.

    Returns
    -------
    Path
        ``answers``.

    Raises
    ------
    ParameterError
        If a prompt is too long for the model or another parameter cannot work; before the model is
        loaded. Later, if the model cannot be loaded or the disk is full.
    RunMismatchError
        If ``answers`` was written with other settings.
    DataError
        If a file is damaged.
    BusyError
        If another process is writing the same answers.
    ServerError
        If a server fails; completed answers are stored.
    MissingExtraError
        If a package that the engine needs is not installed.
    """
    questions, path = Path(questions), Path(answers)
    about = read_metadata(questions)
    tokens_to_generate = decoding.tokens_to_generate or about.get("tokens_to_generate")
    tokens_to_generate = whole_number("tokens_to_generate", tokens_to_generate, 1)
    format = format or PromptFormat.from_settings(about)  # noqa: A001
    # A task may have stop strings of its own.
    stop = dict.fromkeys([*format.stop, *about.get("stop", ())])
    frame = replace(format, stop=tuple(stop)).frame(model.tokenizer)
    max_new_tokens = tokens_to_generate + frame.format.thinking_tokens
    samples = _read_samples(questions, num_samples)
    # By characters, because counting the tokens of every prompt takes long. The engine checks each.
    sample = max(samples, key=lambda one: len(one.input))
    prompt = frame.prompt(sample.input, sample.answer_prefix)
    longest = max_new_tokens + model.tokenizer.count(prompt) + frame.special
    limit = math.inf if model.limit is None else model.limit
    if longest > limit:
        raise ParameterError("length", longest, f"at most {limit}, the limit of '{model.name}'")
    # The batch size follows from the requested length, so more samples do not change it. A run
    # that was begun keeps its own: another size changes the last digits of the model's numbers.
    planned = about.get("length", 0) + frame.format.thinking_tokens
    batch_size = model.batch_size(max(longest, planned))
    if batch_size is not None:
        batch_size = read_settings(path).get("batch_size") or batch_size
    chosen = model.decoding(decoding)
    settings = {
        "model": model.name,
        **model.settings,
        **frame.format.settings(),
        "decoding": chosen,
        "tokens_to_generate": tokens_to_generate,
        "batch_size": batch_size,
        "versions": _versions(),
        "dataset": about,
        "cell": cell and dict(cell),
    }
    bar = progress or progress_bar(0, "", quiet=True)
    stored = Answers(path, settings)
    asked = [(sample, repeat) for sample in samples for repeat in range(decoding.samples)]
    if stored.in_order and all(stored.has(*each) for each in asked):
        skip(bar, weight * len(asked))
        return path

    with stored.writing():
        skip(bar, weight * sum(stored.has(*each) for each in asked))
        for batch in _batches(samples, batch_size, stored, decoding.samples):
            requests = (
                request(sample, frame, max_new_tokens, decoding, repeat) for sample, repeat in batch
            )
            generations: Any = model.generate(requests)
            # Closed at once: a traceback that a notebook keeps would hold paid requests open.
            with contextlib.closing(generations):
                for position, answer in generations:
                    sample, repeat = batch[position]
                    # A batch that was half done is asked again as a whole.
                    if not stored.has(sample, repeat):
                        number = repeat if decoding.samples > 1 else None
                        stored.append(record(sample, answer, frame, number, chosen))
                        bar.update(weight)
            missing = sum(not stored.has(*each) for each in batch)
            if missing:
                raise RuntimeError(f"{model.name} left {missing} requests without an answer")
    return path


def _read_samples(path: Path, num_samples: int | None) -> list[Sample]:
    """Return the first samples of a file, with the same context next to each other."""
    samples = list(itertools.islice(read(path, Sample), num_samples))
    if not samples:
        raise DataError(f"{path}: no samples.")
    for number, sample in enumerate(samples):
        # NVIDIA's scripts write the position of the answer into `index`.
        sample.index = number
    samples.sort(key=lambda one: (-1 if one.context_id is None else one.context_id, one.index))
    return samples


def _versions() -> dict[str, str]:
    """Return the versions of the installed packages that may change an answer."""
    versions = {"python": platform.python_version(), "rulerlib": rulerlib.__version__}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _batches(
    samples: list[Sample], size: int | None, stored: Answers, repeats: int
) -> Iterator[list[Asked]]:
    """Yield the questions of each call of the engine, see `rulerlib.models.Model.batch_size`.

    An engine without a batch size gets all missing questions at once. Otherwise a batch is asked
    as a whole if one of its answers is missing: the same prompts side by side give the same
    numbers, and so the same bytes.
    """
    parts = [samples]
    if size is not None:
        parts = []
        for context, group in itertools.groupby(samples, key=lambda sample: sample.context_id):
            together = list(group)
            # Questions about one context, and several answers to one question, are one batch.
            step = len(together) if context is not None else size if repeats == 1 else 1
            parts += [together[first : first + step] for first in range(0, len(together), step)]
    for part in parts:
        batch = [(sample, repeat) for sample in part for repeat in range(repeats)]
        missing = [each for each in batch if not stored.has(*each)]
        if missing:
            yield missing if size is None else batch


def request(
    sample: Sample,
    frame: Frame,
    room: int,
    decoding: Decoding = GREEDY,
    repeat: int = 0,
) -> Request:
    """Return the request for an answer to a sample.

    Parameters
    ----------
    frame
        The frame of the prompt.
    room
        The most tokens to generate, thinking included.
    decoding
        How tokens are chosen.
    repeat
        Which of ``decoding.samples`` answers this is, from 0.
    """
    # Several answers to one question share the whole prompt.
    alike = sample.index if decoding.samples > 1 else None
    return Request(
        prompt=frame.prompt(sample.input, sample.answer_prefix),
        special=not frame.chat,
        max_new_tokens=room,
        messages=frame.messages(sample.input, sample.answer_prefix),
        template=frame.template,
        tags=frame.format.thinking_tags if frame.chat else (),
        group=alike if sample.context_id is None else sample.context_id,
        stop=frame.format.stop,
        decoding=decoding,
        repeat=repeat,
    )


def record(
    sample: Sample,
    answer: Generation,
    frame: Frame,
    repeat: int | None = None,
    decoding: Any = "greedy",
) -> Prediction:
    """Return the record of an answer.

    Parameters
    ----------
    frame
        The frame of the prompt.
    repeat
        Which of several answers to the sample this is, from 0. If None, it is the only one.
    decoding
        How its tokens were chosen, see `rulerlib.models.Model.decoding`.
    """
    text, told = writable(answer.text), writable(answer.thinking)
    thought, answered, unended = "", text, False
    if frame.chat:
        # A server that separates thinking has also removed a tag that the template had begun.
        begun = frame.thinks and not told
        thought, answered, unended = split_thinking(text, frame.format.thinking_tags, begun)
    thought = told + thought
    if find_tag(answered):
        # Python shows the same warning once.
        about = "an answer contains a thinking tag, which is scored; set thinking_tags"
        warnings.warn(f"{sample.task}: {about}.", stacklevel=3)
    where = "thinking" if unended or (told and not answered) else "answer"
    kept = ("task", "language", "answer_prefix", "depths", "token_positions", "context_id")
    others = {
        **{name: getattr(sample, name) for name in kept},
        **{name: getattr(sample, name) or None for name in OPTIONAL},
        "parts": parts_to_data(sample.parts),
        "prompt_tokens": answer.prompt_tokens,
        "tokens_generated": answer.tokens,
        "finished": answer.finished,
        # The part of the answer that the token limit cut off.
        "cut_off": None if answer.finished else where,
        "thinking": thought or None,
        "repeat": repeat,
        "decoding": decoding,
    }
    others = {
        name: value for name, value in others.items() if value is not None or name == "cut_off"
    }
    return Prediction(
        sample.index, sample.input, sample.outputs, answered, others, length=sample.length
    )


def progress_bar(total: float, label: str, quiet: bool = False) -> Any:
    """Return a tqdm bar, which in a notebook is one line of text that is updated in place.

    An executed notebook shows tqdm's own widget at 0% and its text bar as hundreds of lines.

    Parameters
    ----------
    total
        The sum of all work, in any unit.
    label
        What is being done.
    quiet
        Whether to show no bar.
    """
    line = None if quiet else _notebook_line()
    bar = tqdm(
        total=total, desc=label, disable=quiet or (line is None and not sys.stderr.isatty()),
        file=sys.stderr if line is None else io.StringIO(),
        bar_format=_FORMAT, mininterval=0.5, miniters=0, smoothing=0,
    )  # fmt: skip
    if line is not None:
        bar.display = lambda *_, **__: line.update({"text/plain": str(bar)}, raw=True)
        bar.refresh()
    return bar


def skip(bar: Any, weight: float) -> None:
    """Count work on a progress bar that was done before and took no time."""
    if not bar.disable:
        bar.initial += weight
        bar.update(weight)


def _notebook_line() -> Any:
    """Return a line of the notebook that can be updated, or None outside of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
