"""A dataset and a model become predictions; a killed run goes on where it stopped.

Each prediction is appended to its file as soon as it is finished, in whatever
order. What stands in the file counts, so that nothing is lost and nothing is
done twice. When all are there they are put in order, in one step, so that an
interrupted run ends with the same bytes as one that was not.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import models, samples
from rulerlib.dataset import METADATA, compare
from rulerlib.errors import DataError, ParameterError, whole_number
from rulerlib.lock import alone
from rulerlib.models import Generation, Model, Request
from rulerlib.progress import Progress
from rulerlib.samples import Prediction, Sample
from rulerlib.tokens import TAGS, Frame, check_tags, check_thinking

# Other versions of these may give other numbers.
PACKAGES = ("torch", "transformers", "tokenizers", "vllm", "openai")

# Samples whose first so many characters are the same have the same haystack.
OPENING = 2048


def predict(
    dataset: str | Path,
    model: Model,
    output: str | Path,
    num_samples: int | None = None,
    tokens_to_generate: int | None = None,
    chat: bool | None = None,
    allow_truncation: bool = False,
    progress: Progress | None = None,
    weight: float = 1.0,
    answer_prefix: str | None = None,
    thinking: bool | None = None,
    thinking_tokens: int = 0,
    thinking_tags: Sequence[str] = TAGS,
) -> Path:
    """Ask a model every question of a dataset.

    Parameters
    ----------
    dataset
        A ``validation.jsonl``, ours or one made by NVIDIA's RULER.
    model
        An engine, see `rulerlib.models.load`.
    output
        The file of predictions, ``pred/<task>.jsonl``. Its settings stand
        beside it, in ``<task>.settings.json``.
    num_samples
        Only so many from the beginning; None: all.
    tokens_to_generate, chat, answer_prefix, thinking
        None: as the dataset was made for; the first is needed where it has no metadata. What
        they mean, see `rulerlib.dataset.Dataset`.
    allow_truncation
        Cut prompts that the model cannot take, in the middle, instead of
        refusing them; every such record says so in ``truncation``.
    progress, weight
        A bar to move on, and what each sample counts on it.
    thinking_tokens
        Room for thinking, in tokens, on top of ``tokens_to_generate``. Both are one room: an
        answer may use what the thinking left.
    thinking_tags
        What stands before and after thinking. What is between them is kept in ``others``, and
        only the rest is scored; an answer that the limit cut off says so there, in ``cut_off``.

    Returns
    -------
    Path
        ``output``.

    Raises
    ------
    ParameterError
        If a prompt is longer than the model takes; before anything is loaded.
    RunMismatchError
        If ``output`` was begun with other settings.
    DataError
        If a file is damaged.
    BusyError
        If another process is at the same output.
    """
    dataset, output = Path(dataset), Path(output)
    about = metadata(dataset)
    if tokens_to_generate is None:
        tokens_to_generate = about.get("tokens_to_generate")
    whole_number("tokens_to_generate", tokens_to_generate, 1)
    assert tokens_to_generate is not None
    if num_samples is not None:
        whole_number("num_samples", num_samples, 1)
    if thinking is None:
        thinking = about.get("thinking")
    frame = model.tokenizer.frame(
        about.get("chat") if chat is None else chat,
        answer_prefix or about.get("answer_prefix", "assistant"),
        thinking,
        check_tags(thinking_tags),
    )
    check_thinking(model.name, frame, thinking, thinking_tokens)
    room = tokens_to_generate + thinking_tokens

    if model.limit is not None and room >= model.limit:
        raise ParameterError(
            "tokens_to_generate", room,
            f"less than {model.limit}, what '{model.name}' can take together with a prompt",
        )  # fmt: skip
    total, longest = _survey(dataset, about, model, frame, thinking, room, num_samples)
    if model.limit is not None and longest > model.limit and not allow_truncation:
        raise ParameterError(
            "length",
            longest,
            f"at most {model.limit}, what '{model.name}' can take (allow_truncation=True cuts"
            " prompts in the middle and says so in every record)",
        )

    settings = {
        "model": model.name,
        **model.settings,
        "chat": frame.chat,
        "answer_prefix": frame.answer_prefix,
        "thinking": thinking,
        "thinking_tokens": thinking_tokens,
        "thinking_tags": list(frame.tags),
        "tokens_to_generate": tokens_to_generate,
        "allow_truncation": allow_truncation,
        # Of the length asked for, so that further samples do not change it.
        "batch_size": model.batch_size(max(longest, about.get("length", 0) + thinking_tokens)),
        "versions": _versions(),
        "dataset": {name: about[name] for name in sorted(about) if name != "num_samples"},
    }
    progress = progress or Progress(0, dataset.parent.name, quiet=True)
    done = _standing(output, settings, dataset)
    if list(done)[:total] == list(range(total)):
        progress.advance(weight * total, measured=False)
        return output

    models.reserve(model, longest)
    with alone(output):
        done = _resume(output, settings, dataset)
        progress.advance(weight * sum(index < total for index in done), measured=False)
        if settings["batch_size"] is None:
            asked = _in_reading_order(dataset, total)
        else:
            asked = islice(_numbered(dataset, about), total)
        for batch in _batches(asked, settings["batch_size"], done):
            for sample, answer in _answers(
                model, batch, lambda sample: request(sample, frame, room, allow_truncation)
            ):
                if sample.index not in done:
                    done[sample.index] = _append(output, record(sample, answer, frame))
                    progress.advance(weight)
        _put_in_order(output, done)
    return output


def cost(length: int) -> float:
    """What a prompt costs in relation to others: its tokens, and their attention to each other."""
    return length * (1 + length / 4096)


def read(output: str | Path, num_samples: int | None = None) -> list[Prediction]:
    """The predictions of a run, by index."""
    return sorted(
        islice(samples.read(output, Prediction), num_samples), key=lambda record: record.index
    )


def _survey(
    dataset: Path,
    about: dict[str, Any],
    model: Model,
    frame: Frame,
    thinking: bool | None,
    room: int,
    num_samples: int | None,
) -> tuple[int, int]:
    """The number of samples, and the longest sequence in tokens, before anything is loaded."""
    # The lengths in the file hold for the tokenizer and template that it was made for.
    generated = about.get("tokens_to_generate", 0)
    counted = (
        generated
        and about.get("tokenizer_fingerprint") == model.tokenizer.fingerprint
        and about.get("chat") == frame.chat
        and about.get("answer_prefix", "assistant") == frame.answer_prefix
        and about.get("thinking") == thinking
    )
    total = longest = 0
    for sample in islice(_numbered(dataset, about), num_samples):
        total += 1
        if counted and sample.length_w_model_temp:
            fed = sample.length_w_model_temp - generated
        else:
            text = frame.prompt(sample.input, sample.answer_prefix)
            fed = model.tokenizer.count(text) + frame.special
        longest = max(longest, fed + room)
    if not total:
        raise DataError(f"{dataset}: no samples.")
    if num_samples is not None and total < num_samples:
        raise ParameterError("num_samples", num_samples, f"at most {total}, what {dataset} holds")
    return total, longest


def _versions() -> dict[str, str]:
    """What was installed when the first answer was asked for; noted, not compared."""
    found = {"python": platform.python_version(), "rulerlib": rulerlib.__version__}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _numbered(dataset: Path, about: dict[str, Any]) -> Iterator[Sample]:
    """The samples of a dataset, numbered by their places in it.

    Ours have that number in ``index``. NVIDIA's scripts put the character position of the
    answer there, which says nothing about which sample it is.
    """
    for place, sample in enumerate(samples.read(dataset, Sample)):
        if about and sample.index != place:
            raise DataError(
                f"{dataset}, line {place + 1}: index {sample.index}, but {place} was expected."
            )
        sample.index = place
        yield sample


def _in_reading_order(dataset: Path, total: int) -> Iterator[Sample]:
    """The samples in the order that an engine with a prefix cache has least to read in.

    Of samples that begin alike, which have the same haystack (noise above all), those whose
    first needle lies deepest come first: all that precedes a needle was then read by the sample
    before, however few prompts are kept. Samples that share a whole context stay together. The
    rest keep their places.
    """
    order: list[tuple[int, float, int, int]] = []
    first: dict[Any, int] = {}
    for place, (start, line) in enumerate(islice(samples.offsets(dataset), total)):
        sample = Sample.from_json(line.decode("utf-8"))
        begins = hashlib.sha256(sample.input[:OPENING].encode()).digest()
        alike: Any = begins if sample.context_id is None else sample.context_id
        deepest = -min(sample.depths, default=0) if sample.context_id is None else 0
        order.append((first.setdefault(alike, place), deepest, place, start))
    with dataset.open("rb") as file:
        for _, _, place, start in sorted(order):
            file.seek(start)
            sample = Sample.from_json(file.readline().decode("utf-8"))
            sample.index = place
            yield sample


def metadata(dataset: Path) -> dict[str, Any]:
    """What stands beside a dataset of ours; empty for one made by others."""
    path = dataset.parent / METADATA
    if not path.exists():
        return {}
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: damaged ({error}).") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: damaged (not a JSON object).")
    return found


Places = dict[int, tuple[int, int]]
"""For each index, in the order of the file, the bytes [start, end) of its line."""


def _standing(output: Path, settings: dict[str, Any], dataset: Path) -> Places:
    """Where the predictions stand that were made already.

    Raises
    ------
    RunMismatchError, DataError
        If they were made with other settings, or are not the answers to these samples.
    """
    beside = output.with_suffix(".settings.json")
    done: Places = {}
    outputs: dict[int, list[str]] = {}
    start = 0
    for number, (record, end) in enumerate(samples.read_unfinished(output, Prediction), 1):
        if record.index in done:
            raise DataError(f"{output}, line {number}: sample {record.index} stands there twice.")
        done[record.index], start = (start, end), end
        outputs[record.index] = record.outputs
    if done and not beside.exists():
        raise DataError(f"{beside} is missing, so nobody can say how {output} was made.")
    if beside.exists():
        compare(beside, settings, ignore=("model", "versions") if done else tuple(settings))
    for place, sample in enumerate(samples.read(dataset, Sample)):
        if outputs.pop(place, sample.outputs) != sample.outputs:
            raise _stranger(output, done, place)
    if outputs:
        raise _stranger(output, done, min(outputs))
    return done


def _resume(output: Path, settings: dict[str, Any], dataset: Path) -> Places:
    """The same, after what a kill left has been removed; only for who is alone at it."""
    beside = output.with_suffix(".settings.json")
    for path in (output, beside):
        samples.remove_leftovers(path)
    done = _standing(output, settings, dataset)
    if not done:
        with samples.replacing(beside) as file:
            file.write(json.dumps(settings, ensure_ascii=False, indent=2) + "\n")
    size = max((end for _, end in done.values()), default=0)
    if output.exists() and output.stat().st_size > size:
        os.truncate(output, size)
    return done


def _stranger(output: Path, done: dict[int, Any], index: int) -> DataError:
    line = list(done).index(index) + 1
    return DataError(f"{output}, line {line}: not the answer to sample {index}.")


def _batches(
    records: Iterable[Sample], size: int | None, done: Container[int]
) -> Iterator[Iterable[Sample]]:
    """The samples of each call of the engine, as `rulerlib.models.Model.batch_size` says.

    A batch that was half written is read again as a whole: the same prompts beside each other
    give the same numbers, and so the same bytes.
    """
    if size is None:
        left = (sample for sample in records if sample.index not in done)
        # An engine that is asked for nothing would load its weights all the same.
        for first in left:
            yield chain([first], left)
        return
    for context, run in groupby(records, key=attrgetter("context_id")):
        # All questions on a context are one call, which the engine divides: it reads it once.
        while batch := list(run if context is not None else islice(run, size)):
            if any(sample.index not in done for sample in batch):
                yield batch


def _answers(
    model: Model, batch: Iterable[Sample], request: Callable[[Sample], Request]
) -> Iterator[tuple[Sample, Generation]]:
    """What a model says to each sample, as it finishes."""
    # Only what is asked and not answered yet is held in memory.
    waiting: dict[int, Sample] = {}

    def requests() -> Iterator[Request]:
        for position, sample in enumerate(batch):
            waiting[position] = sample
            yield request(sample)

    answers = model.generate(requests())
    try:
        for position, answer in answers:
            yield waiting.pop(position), answer
    finally:
        # At once, not when Python collects it: a traceback that a notebook keeps would hold
        # requests open, which cost money.
        if isinstance(answers, Generator):
            answers.close()
    if waiting:
        raise RuntimeError(f"{model.name} left {len(waiting)} requests without an answer")


def request(sample: Sample, frame: Frame, room: int, allow_truncation: bool = False) -> Request:
    """What a model is asked for a sample, with room for so many tokens of thinking and answer."""
    return Request(
        prompt=frame.prompt(sample.input, sample.answer_prefix),
        special=not frame.chat,
        max_new_tokens=room,
        messages=frame.messages(sample.input, sample.answer_prefix),
        template=frame.template,
        tags=frame.tags if frame.chat else (),
        group=sample.context_id,
        truncate=allow_truncation,
    )


def record(sample: Sample, answer: Generation, frame: Frame) -> Prediction:
    """What is kept of an answer."""
    thinking, said, unended = frame.split(answer.text)
    # Some servers tell thinking apart themselves.
    thinking = answer.thinking + thinking
    unended = unended or bool(answer.thinking and not said)
    where = "thinking" if unended else "answer"
    return Prediction(
        index=sample.index,
        input=sample.input,
        outputs=sample.outputs,
        pred=said,
        others={
            "task": sample.task,
            "language": sample.language,
            "answer_prefix": sample.answer_prefix,
            "depths": sample.depths,
            "token_positions": sample.token_positions,
            "prompt_tokens": answer.prompt_tokens,
            "tokens_generated": answer.tokens,
            "finished": answer.finished,
            **({"context_id": sample.context_id} if sample.context_id is not None else {}),
            # Where the limit struck; a model without an end of its own always goes on to it.
            "cut_off": None if answer.finished else where,
            **({"thinking": thinking} if thinking else {}),
            # Its last digits are those of a smaller batch than the settings say.
            **({"split": answer.split} if answer.split else {}),
        },
        truncation=answer.kept,
        length=sample.length,
    )


def _append(output: Path, record: Prediction) -> tuple[int, int]:
    """Write a record at the end of the file, and say where it stands."""
    line = (record.to_json() + "\n").encode()
    try:
        with output.open("ab") as file:
            start = file.tell()
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ParameterError(
            "output", str(output), f"a file that can be written ({error.strerror or error})"
        ) from error
    return start, start + len(line)


def _put_in_order(output: Path, done: Places) -> None:
    """Put the lines of a finished file in the order of their indices, in one step."""
    if list(done) == sorted(done):
        return
    with output.open("rb") as file, samples.replacing(output) as ordered:
        for _, (start, end) in sorted(done.items()):
            file.seek(start)
            ordered.write(file.read(end - start).decode("utf-8"))
