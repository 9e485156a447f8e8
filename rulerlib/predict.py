"""Questions and a model become answers on disk; a killed run goes on where it stopped.

How answers are kept, and resumed, is `rulerlib.store.answers`'s; here stand what a model is asked
for a question, in which order, and what is kept of what it says.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import math
import platform
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import models
from rulerlib.errors import DataError, require, whole_number
from rulerlib.models import Generation, Model, Request
from rulerlib.parts import parts_to_data
from rulerlib.progress import Progress
from rulerlib.prompts import Decoding, Frame, PromptFormat, find_tag, split_thinking
from rulerlib.samples import OPTIONAL, Prediction, Sample, question, read_placed, writable
from rulerlib.store.answers import Answers, read_settings
from rulerlib.store.questions import GROWING, UNSAID, metadata
from rulerlib.tokens import SAMPLE, warn_unknown

# Other versions of these may give other numbers.
PACKAGES = ("torch", "transformers", "tokenizers", "vllm", "openai")

# Samples whose first 2,048 characters are the same have the same haystack.
OPENING = 2048

# What decides how many tokens a model is fed.
COUNTED = ("tokenizer_fingerprint", "chat", "system_prompt", "answer_prefix", "thinking")

GREEDY = Decoding()

Asked = tuple[Sample, int]
"""A sample, and which of the answers to it is asked for, from 0."""


def predict(
    questions: str | Path,
    model: Model,
    answers: str | Path,
    format: PromptFormat | None = None,  # noqa: A002
    decoding: Decoding = GREEDY,
    num_samples: int | None = None,
    allow_truncation: bool = False,
    progress: Progress | None = None,
    weight: float = 1.0,
    cell: Mapping[str, Any] | None = None,
    sentence_repeats: float | None = None,
    start: int = 0,
) -> Path:
    """Ask a model every question of a file, and write its answers.

    Parameters
    ----------
    questions
        A ``validation.jsonl``, ours or one made by NVIDIA's RULER.
    model
        An engine, see `rulerlib.models.load`.
    answers
        The file of answers, ``pred/<task>.jsonl``. Its settings stand beside it, in
        ``<task>.settings.json``.
    format
        How the questions are put to the model; None: as they were made for. What it thinks is
        kept in ``others``, and only the rest is scored.
    decoding
        How the model chooses its tokens, and how many. Room for thinking comes on top, and an
        answer may use what the thinking left.
    num_samples, start
        How many questions are asked, from the beginning; None: all. Those before ``start`` were
        asked by an earlier call, and are in no batch of this one.
    allow_truncation
        Cut prompts that the model cannot take, in the middle, instead of refusing them; every
        such record says so in ``truncation``.
    progress, weight
        A bar to move on, and what each sample counts on it.
    cell
        The settings of the cell that this is, to be written beside the answers.
    sentence_repeats
        How often a sentence of the haystack stands in a prompt, see
        `rulerlib.dataset.Dataset.repeats`, to be written there too where the answers are begun.

    Returns
    -------
    Path
        ``answers``.

    Raises
    ------
    ParameterError
        If a prompt is longer than the model takes, or another parameter cannot work; before
        anything is loaded. Later, if the model cannot be loaded or the disk is full.
    RunMismatchError
        If ``answers`` was begun with other settings.
    DataError
        If a file is damaged.
    BusyError
        If another process is writing the same answers.
    ServerError
        If a server does not answer to the end; the answers that came are kept.
    MissingExtraError
        If a package that the engine needs is not installed.
    """
    questions, path = Path(questions), Path(answers)
    about = metadata(questions)
    tokens_to_generate = decoding.tokens_to_generate or about.get("tokens_to_generate")
    tokens_to_generate = whole_number("tokens_to_generate", tokens_to_generate, 1)
    if num_samples is not None:
        whole_number("num_samples", num_samples, 1)
    if format is None:
        # Questions do not say how much room thinking has.
        allowed_values = (
            "at least 1, because these questions are for a model that thinks: choose"
            " format=PromptFormat(thinking=True, thinking_tokens=...)"
        )
        require(not about.get("thinking"), "thinking_tokens", 0, allowed_values)
        format = PromptFormat.from_settings(about)  # noqa: A001
    # A task may end its answers by itself, as with the line.
    more = (text for text in about.get("stop", ()) if text not in format.stop)
    frame = replace(format, stop=(*format.stop, *more)).frame(model.tokenizer)
    room = tokens_to_generate + frame.format.thinking_tokens
    limit = math.inf if model.limit is None else model.limit
    allowed_values = f"less than {limit}, what '{model.name}' can take together with a prompt"
    require(room < limit, "tokens_to_generate", room, allowed_values)
    survey = _Survey(questions, num_samples, _counter(about, model, frame), ours=bool(about))
    if about.get("tokenizer_fingerprint") != model.tokenizer.fingerprint:
        [first] = survey.samples(survey.order[:1])
        warn_unknown(first.input[:SAMPLE], model.tokenizer)
    longest = survey.longest + room
    allowed_values = (
        f"at most {limit}, what '{model.name}' can take (allow_truncation=True cuts"
        " prompts in the middle and says so in every record)"
    )
    require(longest <= limit or allow_truncation, "length", longest, allowed_values)
    planned = about.get("length", 0) + frame.format.thinking_tokens
    chosen = model.decoding(decoding)
    # Of the length asked for, so that further samples do not change it.
    batch_size = model.batch_size(max(longest, planned))
    if batch_size is not None:
        # What was begun goes on as it was begun: other neighbours give other last digits.
        batch_size = read_settings(path).get("batch_size") or batch_size
    settings = {
        "model": model.name,
        **model.settings,
        **{
            name: value
            for name, value in frame.format.settings().items()
            # Few runs have these, which are said where they are set.
            if value or name not in ("system_prompt", "stop")
        },
        "decoding": chosen,
        "defaults": models.defaults(model),
        "tokens_to_generate": tokens_to_generate,
        "allow_truncation": allow_truncation,
        "batch_size": batch_size,
        "versions": dict(_versions()),
        "dataset": {name: about[name] for name in sorted(about) if name not in GROWING},
        **({} if cell is None else {"cell": dict(cell)}),
        **({} if sentence_repeats is None else {"sentence_repeats": sentence_repeats}),
    }
    if progress is None:
        progress = Progress(0, "", quiet=True)
    repeats = decoding.samples
    done = Answers(path, settings, survey.asked, repeats)
    total = len(survey.order) * repeats
    if done.hold(total):
        progress.skip(weight * total)
        return path

    ask = functools.partial(
        request, frame=frame, room=room, decoding=decoding, allow_truncation=allow_truncation
    )
    models.reserve(model, longest)
    warned: set[str] = set()
    with done.writing():
        progress.skip(weight * sum(number < total for number in done.places))
        for batch in _batches(survey, batch_size, done, start):
            for sample, repeat, answer in _generated(model, batch, ask):
                if (sample.index, repeat) not in done:
                    number = repeat if repeats > 1 else None
                    prediction = record(sample, answer, frame, number, chosen)
                    done.append(prediction)
                    _warn(prediction, warned)
                    progress.update(weight)
        done.put_in_order()
    return path


def _warn(prediction: Prediction, warned: set[str]) -> None:
    """Warn of an answer's flags, of each once."""
    for name in prediction.others.get("flags", ()):
        if name not in warned:
            warned.add(name)
            where = f"{prediction.others['task']}, sample {prediction.index}"
            about = models.FLAGS[name.partition("=")[0]]
            warnings.warn(f"{where}: {about} (flag '{name}').", stacklevel=3)


def cost(length: int) -> float:
    """Return the time that a prompt takes in relation to others, without a unit.

    The time for attention grows with the square of the length; at 4,096 tokens it is taken to be
    as much as all the rest.

    Parameters
    ----------
    length
        In tokens.
    """
    return length * (1 + length / 4096)


class _Survey:
    """What is known of questions before anything is loaded, read once.

    Attributes
    ----------
    longest
        Tokens of the longest prompt that is asked.
    asked
        All samples, each as `rulerlib.samples.question` has it.
    order
        The indices of the samples that are asked, in the order in which an engine with a prefix
        cache has least to read. Samples that begin alike have the same haystack (noise above
        all) and stand together, those whose first needle lies deepest first: all that precedes
        a needle was then read by the sample before, however few prompts are kept. Samples that
        share a whole context stand together too. The rest keep their order.
    """

    def __init__(
        self, path: Path, num_samples: int | None, count: Callable[[Sample], int], ours: bool
    ) -> None:
        self.path, self.longest = path, 0
        self.asked: list[int] = []
        # The bytes [start, end) of the line of each sample.
        self._places: list[tuple[int, int]] = []
        keys: list[tuple[int, float, int]] = []
        first: dict[Any, int] = {}
        for index, (sample, place) in enumerate(read_placed(path, Sample)):
            # NVIDIA's scripts put the character position of the answer into `index`.
            if ours and sample.index != index:
                where = f"{path}, line {index + 1}"
                raise DataError(f"{where}: index {sample.index}, but {index} was expected.")
            self.asked.append(question(sample))
            self._places.append(place)
            if num_samples is None or index < num_samples:
                self.longest = max(self.longest, count(sample))
                alike, deepest = _alike(sample)
                keys.append((first.setdefault(alike, index), -deepest, index))
        if not keys:
            raise DataError(f"{path}: no samples.")
        allowed_values = f"at most {len(keys)}, what {path} holds"
        require(num_samples in (None, len(keys)), "num_samples", num_samples, allowed_values)
        self.order = [index for _, _, index in sorted(keys)]

    def samples(self, indices: Iterable[int]) -> Iterator[Sample]:
        """Yield the samples of some indices, in their order."""
        with self.path.open("rb") as file:
            for index in indices:
                start, end = self._places[index]
                file.seek(start)
                sample = Sample.from_json(file.read(end - start).decode("utf-8"))
                sample.index = index
                yield sample


def _alike(sample: Sample) -> tuple[Any, float]:
    """Return what samples that begin alike have in common, and how deep the first needle lies."""
    if sample.context_id is not None:
        return sample.context_id, 0
    opening = sample.input[:OPENING].encode("utf-8", "replace")
    return hashlib.sha256(opening).digest(), min(sample.depths, default=0)


def _counter(about: dict[str, Any], model: Model, frame: Frame) -> Callable[[Sample], int]:
    """Return a function that counts the tokens that the model is fed for a sample."""
    # The lengths in the file hold for the tokenizer and format that it was made for.
    generated = about.get("tokens_to_generate", 0)
    was, now = {**UNSAID, **about}, frame.format.settings()
    now["tokenizer_fingerprint"] = model.tokenizer.fingerprint
    counted = generated and all(was.get(name) == now[name] for name in COUNTED)

    def count(sample: Sample) -> int:
        if counted and sample.length_w_model_temp:
            return sample.length_w_model_temp - int(generated)
        text = frame.prompt(sample.input, sample.answer_prefix)
        return model.tokenizer.count(text) + frame.special

    return count


@functools.cache
def _versions() -> dict[str, str]:
    """Return the versions of what is installed now, by name; they are noted, not compared."""
    versions = {"python": platform.python_version(), "rulerlib": rulerlib.__version__}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _batches(
    survey: _Survey, size: int | None, done: Answers, start: int = 0
) -> Iterator[Iterable[Asked]]:
    """Yield the questions of each call of the engine, as `rulerlib.models.Model.batch_size` says.

    A batch that was half written is read again as a whole: the same prompts beside each other
    give the same numbers, and so the same bytes.
    """
    repeats = range(done.repeats)
    if size is None:
        left = [index for index in survey.order if any((index, at) not in done for at in repeats)]
        # An engine that is asked for nothing would load its weights all the same.
        if left:
            yield (
                (sample, at)
                for sample in survey.samples(left)
                for at in repeats
                if (sample.index, at) not in done
            )
        return
    samples = survey.samples(range(start, len(survey.order)))
    for context, run in groupby(samples, key=attrgetter("context_id")):
        # All questions on a context, and all answers to a question, are one call, which the
        # engine divides: it reads what they share once.
        alone = context is None
        while batch := list(islice(run, size if len(repeats) == 1 else 1) if alone else run):
            if any((sample.index, at) not in done for sample in batch for at in repeats):
                yield [(sample, at) for sample in batch for at in repeats]


def _generated(
    model: Model, batch: Iterable[Asked], ask: Callable[..., Request]
) -> Iterator[tuple[Sample, int, Generation]]:
    """Yield sample, number of the answer to it (from 0) and generation, as these finish."""
    # Only what is asked and not answered yet is held in memory.
    waiting: dict[int, Asked] = {}

    def requests() -> Iterator[Request]:
        for position, (sample, repeat) in enumerate(batch):
            waiting[position] = sample, repeat
            yield ask(sample, repeat=repeat)

    generations = model.generate(requests())
    try:
        for position, generation in generations:
            yield *waiting.pop(position), generation
    finally:
        # At once, not when Python collects it: a traceback that a notebook keeps would hold
        # requests open, which cost money.
        if isinstance(generations, Generator):
            generations.close()
    if waiting:
        raise RuntimeError(f"{model.name} left {len(waiting)} requests without an answer")


def request(
    sample: Sample,
    frame: Frame,
    room: int,
    decoding: Decoding = GREEDY,
    allow_truncation: bool = False,
    repeat: int = 0,
) -> Request:
    """Return what a model is asked for a sample.

    Parameters
    ----------
    frame
        What stands around the question.
    room
        For thinking and answer together, in tokens.
    decoding
        How the model chooses its tokens.
    allow_truncation
        Whether a prompt that is too long may be cut.
    repeat
        Which of ``decoding.samples`` answers this is, from 0.
    """
    # Answers to one question share the whole prompt.
    alike = sample.index if decoding.samples > 1 else None
    return Request(
        prompt=frame.prompt(sample.input, sample.answer_prefix),
        special=not frame.chat,
        max_new_tokens=room,
        messages=frame.messages(sample.input, sample.answer_prefix),
        template=frame.template,
        tags=frame.format.thinking_tags if frame.chat else (),
        group=alike if sample.context_id is None else sample.context_id,
        truncate=allow_truncation,
        stop=frame.format.stop,
        decoding=decoding,
        repeat=repeat,
    )


def record(
    sample: Sample,
    answer: Generation,
    frame: Frame,
    repeat: int | None = None,
    decoding: str | Mapping[str, Any] = "greedy",
) -> Prediction:
    """Return the record of an answer.

    Parameters
    ----------
    frame
        What stood around the question.
    repeat
        Which of several answers to the sample this is, from 0; None: it is the only one.
    decoding
        How its tokens were chosen, as `rulerlib.models.Model.decoding` says it.
    """
    text, told = writable(answer.text), writable(answer.thinking)
    if told and frame.chat:
        # A server that tells thinking apart has taken out what the template has begun as well.
        thought, answered, unended = split_thinking(text, frame.format.thinking_tags)
    else:
        thought, answered, unended = frame.split(text)
    thought = told + thought
    flags = [*answer.flags, *(["thinking_tag"] if find_tag(answered) else [])]
    where = "thinking" if unended or (told and not answered) else "answer"
    return Prediction(
        index=sample.index,
        input=sample.input,
        outputs=sample.outputs,
        pred=answered,
        others={
            "task": sample.task,
            "language": sample.language,
            "answer_prefix": sample.answer_prefix,
            "parts": parts_to_data(sample.parts),
            "depths": sample.depths,
            "token_positions": sample.token_positions,
            "prompt_tokens": answer.prompt_tokens,
            "tokens_generated": answer.tokens,
            "finished": answer.finished,
            **({"context_id": sample.context_id} if sample.context_id is not None else {}),
            **{name: value for name in OPTIONAL if (value := getattr(sample, name))},
            # Where the limit struck; a model without an end of its own always goes on to it.
            "cut_off": None if answer.finished else where,
            **({"thinking": thought} if thought else {}),
            # Its last digits are those of a smaller batch than the settings say.
            **({"split": answer.split} if answer.split else {}),
            **({"flags": flags} if flags else {}),
            **({} if repeat is None else {"repeat": repeat}),
            "decoding": decoding if isinstance(decoding, str) else dict(decoding),
        },
        truncation=answer.kept,
        length=sample.length,
    )
