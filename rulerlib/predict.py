"""A dataset and a model become predictions; a killed run goes on where it stopped.

Each prediction is appended to its file as soon as it is finished, in whatever
order. What stands in the file counts, so that nothing is lost and nothing is
done twice. When all are there they are put in order, in one step, so that an
interrupted run ends with the same bytes as one that was not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from rulerlib import samples
from rulerlib.dataset import METADATA, compare
from rulerlib.errors import DataError, ParameterError, whole_number
from rulerlib.models import Generation, Model, Request
from rulerlib.progress import Progress
from rulerlib.samples import Prediction, Sample
from rulerlib.tokens import Frame


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
    tokens_to_generate, chat
        None: as the dataset was made for; needed where it has no metadata.
    allow_truncation
        Cut prompts that the model cannot take, in the middle, instead of
        refusing them; every such record says so in ``truncation``.
    progress, weight
        A bar to move on, and what each sample counts on it.

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
    """
    dataset, output = Path(dataset), Path(output)
    about = _metadata(dataset)
    if tokens_to_generate is None:
        tokens_to_generate = about.get("tokens_to_generate")
    whole_number("tokens_to_generate", tokens_to_generate, 1)
    assert tokens_to_generate is not None
    if num_samples is not None:
        whole_number("num_samples", num_samples, 1)
    frame = model.tokenizer.frame(about.get("chat") if chat is None else chat)

    if model.limit is not None and tokens_to_generate >= model.limit:
        raise ParameterError(
            "tokens_to_generate", tokens_to_generate,
            f"less than {model.limit}, what '{model.name}' can take together with a prompt",
        )  # fmt: skip
    total, longest = _survey(dataset, about, model, frame, tokens_to_generate, num_samples)
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
        "tokens_to_generate": tokens_to_generate,
        "allow_truncation": allow_truncation,
        # Of the length asked for, so that further samples do not change it.
        "batch_size": model.batch_size(max(longest, about.get("length", 0))),
        "dataset": {name: about[name] for name in sorted(about) if name != "num_samples"},
    }
    done = _resume(output, settings, dataset)
    progress = progress or Progress(0, dataset.parent.name, quiet=True)
    progress.advance(weight * len(done.keys() & set(range(total))), measured=False)

    def request(sample: Sample) -> Request:
        return Request(
            prompt=frame.prompt(sample.input, sample.answer_prefix),
            special=not frame.chat,
            max_new_tokens=tokens_to_generate,
            messages=frame.messages(sample.input, sample.answer_prefix),
            group=sample.context_id,
            truncate=allow_truncation,
        )

    for batch in _calls(islice(_numbered(dataset, about), total), settings["batch_size"], done):
        asked: list[Sample] = []

        def requests(batch: Iterable[Sample] = batch, asked: list[Sample] = asked) -> Any:
            for sample in batch:
                asked.append(sample)
                yield request(sample)

        for position, answer in model.generate(requests()):
            sample = asked[position]
            if sample.index in done:
                continue
            done[sample.index] = _append(output, record(sample, answer))
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
    tokens_to_generate: int,
    num_samples: int | None,
) -> tuple[int, int]:
    """The number of samples, and the longest sequence in tokens, before anything is loaded."""
    # The lengths in the file hold for the tokenizer, template and answer it was made for.
    counted = (
        about.get("tokenizer_fingerprint") == model.tokenizer.fingerprint
        and about.get("chat") == frame.chat
        and about.get("tokens_to_generate") == tokens_to_generate
    )
    total = longest = 0
    for sample in islice(_numbered(dataset, about), num_samples):
        total += 1
        length = sample.length_w_model_temp
        if not (counted and length):
            text = frame.prompt(sample.input, sample.answer_prefix)
            length = model.tokenizer.count(text) + frame.special + tokens_to_generate
        longest = max(longest, length)
    if not total:
        raise DataError(f"{dataset}: no samples.")
    if num_samples is not None and total < num_samples:
        raise ParameterError("num_samples", num_samples, f"at most {total}, what {dataset} holds")
    return total, longest


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


def _metadata(dataset: Path) -> dict[str, Any]:
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


def _resume(output: Path, settings: dict[str, Any], dataset: Path) -> dict[int, tuple[int, int]]:
    """Where in the file the prediction of each index stands; what a kill left is cut off.

    Returns
    -------
    dict
        For each index, in the order of the file, the bytes [start, end) of its line.
    """
    beside = output.with_suffix(".settings.json")
    done: dict[int, tuple[int, int]] = {}
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
        ignore = ("model",) if done else tuple(settings)
        compare(beside, settings, ignore=ignore)
    if not done:
        with samples.replacing(beside) as file:
            file.write(json.dumps(settings, ensure_ascii=False, indent=2) + "\n")
    for place, sample in enumerate(samples.read(dataset, Sample)):
        if outputs.pop(place, sample.outputs) != sample.outputs:
            raise _stranger(output, done, place)
    if outputs:
        raise _stranger(output, done, min(outputs))
    if output.exists() and output.stat().st_size > start:
        os.truncate(output, start)
    return done


def _stranger(output: Path, done: dict[int, Any], index: int) -> DataError:
    line = list(done).index(index) + 1
    return DataError(f"{output}, line {line}: not the answer to sample {index}.")


def _calls(
    records: Iterable[Sample], size: int | None, done: Container[int]
) -> Iterator[Iterable[Sample]]:
    """The samples of each call of the engine.

    A batch that was half written is read again as a whole: the same prompts beside each other
    give the same numbers, and so the same bytes.
    """
    if size is None:
        yield (sample for sample in records if sample.index not in done)
        return
    stream = iter(records)
    while batch := list(islice(stream, size)):
        if any(sample.index not in done for sample in batch):
            yield batch


def record(sample: Sample, answer: Generation) -> Prediction:
    """What is kept of an answer."""
    return Prediction(
        index=sample.index,
        input=sample.input,
        outputs=sample.outputs,
        pred=answer.text,
        others={
            "task": sample.task,
            "language": sample.language,
            "answer_prefix": sample.answer_prefix,
            "depths": sample.depths,
            "token_positions": sample.token_positions,
            "tokens_generated": answer.tokens,
            "finished": answer.finished,
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


def _put_in_order(output: Path, done: dict[int, tuple[int, int]]) -> None:
    """Put the lines of a finished file in the order of their indices, in one step."""
    if list(done) == sorted(done):
        return
    with output.open("rb") as file, samples.replacing(output) as ordered:
        for _, (start, end) in sorted(done.items()):
            file.seek(start)
            ordered.write(file.read(end - start).decode("utf-8"))
