"""The memory benchmark: for each episode teach, close, reopen, ask; then answer and score.

    rulerlib memory --presets span_short,memory/hei_nw --dry-run
    rulerlib memory --suites episodic --presets rag --sizes 2 --seeds 7
    rulerlib memory --system mine:Memory --model reference --engine reference --sizes 50

The first command prints what would run, the second one is a small run, and the third one compares
a memory of your own with none, with random texts, with a search, and with the facts themselves.

All parameters are checked before anything is taught. An error stops only the piece of work in
which it occurs. Finished work is skipped, and an interrupted command resumes.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import shutil
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import commands, errors, files, models, predict, samples, store
from rulerlib.errors import ParameterError, RulerError, shortened
from rulerlib.memory import measures, presets, work
from rulerlib.memory.episodes import Episode, Probe
from rulerlib.memory.measures import GuardError, Needs
from rulerlib.memory.presets import asked, leak
from rulerlib.memory.suites import SUITES
from rulerlib.memory.system import Memory, OutsideMemory, Recalled, Recalls, Text
from rulerlib.memory.work import METRICS, STORE, TABLE, TELEMETRY, Work
from rulerlib.models import Model
from rulerlib.predict import progress_bar, skip
from rulerlib.samples import Sample

BESIDE = ("span_short", "random", "rag", "oracle")
"""The presets with which a memory of your own is compared."""

SETTINGS = (
    ("knob", "knobs", "a knob of the suites that have it: facts=50"),
    ("set", "changes", "a setting of the presets that have it: gate=false, k=3"),
    ("engine-option", "engine_options", "an option of the engine: dtype=float32"),
)
"""The options that name a setting, the arguments that they become, and what they are."""

MAX_BARE = 0.1
"""The largest share of questions for which a text may be a bare answer that was never taught."""


# ---------------------------------------------------------------- teach, ask, score


def run(works: Sequence[Work], quiet: bool = False) -> tuple[str, ...]:
    """Run all work that is not finished.

    Parameters
    ----------
    quiet
        Whether to show no progress bar.

    Returns
    -------
    tuple of str
        One sentence for each error or guard that stopped some of the work, and the first such work.

    Raises
    ------
    RulerError
        If a parameter is not allowed, before anything is taught.
    """
    readers = check(works)
    files.check_writable(Path(works[0].root).expanduser())
    stopped = dict[str, Work]()
    with progress_bar(sum(job.asked for job in works), f"{len(works)} runs", quiet) as bar:
        for job in works:
            before = bar.n
            try:
                if not measures.is_measured(job):
                    run_one(job, readers[job.engine], bar)
            except RulerError as error:
                stopped.setdefault(str(error), job)
            skip(bar, job.asked - (bar.n - before))
    return tuple(f"{job}: {sentence}" for sentence, job in stopped.items())


def check(works: Sequence[Work]) -> dict[str, Model]:
    """Check all work before any of it begins, and return the model of each engine.

    Raises
    ------
    ParameterError
        If a model cannot take a system prompt or the length, or if a question has no room.
    DataError, MissingExtraError
        If a tokenizer or a language pack cannot be read.
    """
    readers = {job.engine: job for job in works}
    models = {engine: job.reader() for engine, job in readers.items()}
    for job in works:
        prompts = Questions(job, models[job.engine])
        for probe in job.recipe.first.probes:
            prompts.check_room(probe.text)
    return models


def run_one(job: Work, model: Model, progress: Any = None) -> None:
    """Run one piece of work: teach and ask its memory, let the model answer, and score.

    Raises
    ------
    RulerError
        If a guard stops it, a file is damaged, or the model fails.
    """
    with files.lock(job.folder / METRICS):
        path = store.write_questions(Questions(job, model), job.questions_path.parent)
        asking = job.preset.format(job.pack), job.decoding
        about = job.cell.settings()
        predict.predict(path, model, job.answers_path, *asking, progress=progress, cell=about)
        measures.write(job)


class Questions:
    """The questions of a piece of work, each with what the memory recalled for it.

    Iterating teaches the memory; `rulerlib.store.write_questions` iterates only if the file of
    questions is not there yet.

    Parameters
    ----------
    job
        The piece of work.
    model
        The model; its tokenizer counts the tokens of prompts.

    Raises
    ------
    ParameterError
        If the model cannot take the system prompt of the preset.
    """

    def __init__(self, job: Work, model: Model) -> None:
        self._job, self._tokenizer, self._frame = job, model.tokenizer, job.frame(model)
        self._prefix: str = job.pack.section("memory")["ask"]["answer_prefix"]

    def __len__(self) -> int:
        return self._job.asked

    def __iter__(self) -> Iterator[Sample]:
        shown = self._recalled() if self._job.preset.stores else self._in_context()
        for index, (episode, probe, texts) in enumerate(shown):
            yield self._sample(index, episode, probe, texts)

    def _in_context(self) -> Iterator[tuple[Episode, Probe, list[Recalled]]]:
        """Yield the questions of a preset without a memory system, with the facts it shows."""
        for episode in self._job.recipe:
            for probe in episode.probes:
                shown = {"none": (), "all": episode.facts, "needed": episode.needed(probe)}
                facts = sorted(shown[self._job.preset.system], key=attrgetter("number"))
                yield episode, probe, [Recalled(fact.text, (fact.number,)) for fact in facts]

    def _recalled(self) -> Iterator[tuple[Episode, Probe, list[Recalled]]]:
        """Yield the questions of a memory: for each episode teach, close, reopen, ask.

        The guards raise at the end, and `rulerlib.store.write_questions` then keeps nothing.
        """
        job, name = self._job, self._job.preset.short
        recalls, bare = Recalls(), 0
        temporary = tempfile.TemporaryDirectory(prefix="rulerlib-")
        with temporary as root, _memory(job) as teacher, _memory(job) as asker:
            for number, episode in enumerate(job.recipe):
                folder = Path(root) / str(number)
                folder.mkdir()
                for _, facts in itertools.groupby(episode.facts, key=attrgetter("session")):
                    teacher.teach(folder, [Text.of(fact) for fact in facts])
                taught = _hashes(folder)
                found = asker.recall(folder, [probe.text for probe in episode.probes])
                if _hashes(folder) != taught:
                    raise GuardError(f"{name} changed its store while it was asked.")
                recalls += found
                for probe, (shown, _) in zip(episode.probes, found, strict=True):
                    if job.preset.is_outside:
                        needs = Needs(episode, probe, job.pack)
                        bare += any(needs.is_bare_answer(text) for text, _ in shown)
                    yield episode, probe, shown
            if not any(path.stat().st_size for path in _hashes(Path(root))):
                raise GuardError(f"The store of {name} is empty after teaching.")
            _check_recalls(name, asker.requests, recalls, bare, job.recipe.size)
            kept, times = job.folder / STORE, [round(seconds * 1e6) for _, seconds in recalls]
            with files.saving(kept):
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(root, kept)
            files.write_object(job.folder / TELEMETRY, {"microseconds": times})

    @property
    def metadata(self) -> dict[str, Any]:
        """Everything that decides the bytes of the prompts.

        There is no ``length``: most prompts are far shorter than the budget, and the longest one
        decides how much room a batch needs.
        """
        job = self._job
        return {
            "task": job.recipe.suite,
            "language": job.recipe.language,
            "seed": job.recipe.seed,
            "episodes": job.recipe.to_dict(),
            "memory": job.preset.to_dict(),
            "budget": job.budget,
            "tokens_to_generate": job.preset.max_new_tokens,
            "tokenizer": self._tokenizer.name,
            "tokenizer_fingerprint": self._tokenizer.fingerprint,
            **self._frame.format.settings(),
            "rulerlib": rulerlib.__version__,
        }

    def check_room(self, question: str) -> None:
        """Raise a ParameterError if a question does not fit into the budget without any texts."""
        job = self._job
        least = self._count(asked(job.pack, question, ())) + job.preset.max_new_tokens
        if job.budget < least:
            allowed = f"at least {least}, the tokens of a question alone and its answer"
            raise ParameterError("length", job.budget, allowed)

    def _count(self, text: str) -> int:
        """Return the number of prompt tokens of a question."""
        whole = self._frame.prompt(text, self._prefix)
        return self._tokenizer.count(whole) + self._frame.special

    def _sample(
        self, index: int, episode: Episode, probe: Probe, shown: Sequence[Recalled]
    ) -> Sample:
        """Return a question with the recalled texts that fit."""
        job, answer = self._job, self._job.preset.max_new_tokens
        self.check_room(probe.text)
        kept = self._fitting(probe.text, [text for text, _ in shown])
        texts = [text for text, _ in shown[kept]]
        prompt = asked(job.pack, probe.text, texts)
        self._check_leaks(prompt, texts, episode)
        whole = prompt + self._frame.prefix(self._prefix)
        return Sample(
            index=index,
            input=prompt,
            outputs=list(probe.golds),
            length=self._tokenizer.count(whole) + answer,
            length_w_model_temp=self._count(prompt) + answer,
            answer_prefix=self._prefix,
            task=job.recipe.suite,
            language=job.recipe.language,
            golds=[[gold] for gold in probe.golds],
            id=f"{episode.id}/{index % job.recipe.probes}",
            cluster=episode.id,
            facts=measures.judge(job, episode, probe, shown, kept),
        )

    def _fitting(self, question: str, texts: list[str]) -> slice:
        """Return which texts fit: the last ones if they are all facts, otherwise the first ones."""
        job, preset, last = self._job, self._job.preset, self._job.preset.system == "all"

        def is_too_long(number: int) -> bool:
            kept = texts[len(texts) - number :] if last else texts[:number]
            recalled = self._tokenizer.count("\n".join(kept)) if preset.stores else 0
            whole = self._count(asked(job.pack, question, kept)) + preset.max_new_tokens
            return recalled > preset.recall_tokens or whole > job.budget

        number = bisect_left(range(1, len(texts) + 1), True, key=is_too_long)
        return slice(len(texts) - number, None) if last else slice(number)

    def _check_leaks(self, text: str, kept: Sequence[str], episode: Episode) -> None:
        """Check that a prompt holds nothing of the episode but what was recalled."""
        prompt = self._frame.prompt(text, self._prefix)
        if kept:
            # A line break, so that the remaining parts do not join into a new sentence.
            prompt = prompt.replace("\n".join(kept), "\n", 1)
        leaked = leak(prompt, [fact.text for fact in episode.facts])
        if leaked is not None:
            raise GuardError(
                f"A prompt holds a taught text that was not recalled: {shortened(leaked, 120)}."
            )


# ---------------------------------------------------------------- the memory


def _memory(job: Work) -> AbstractContextManager[Memory | OutsideMemory]:
    system, settings = job.preset.system, job.preset.settings
    if job.preset.is_outside:
        return OutsideMemory(system, settings)
    return nullcontext(Memory(lambda folder: presets.opened(system, folder, job.pack, **settings)))


def _hashes(folder: Path) -> dict[Path, bytes]:
    """Return a hash of each file in a folder."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path: hashlib.sha256(path.read_bytes()).digest() for path in found}


def _check_recalls(name: str, requests: int, recalls: Recalls, bare: int, episodes: int) -> None:
    """Raise a `GuardError` if the numbers of a run would be misleading."""
    recalled, count = [texts for texts, _ in recalls], len(recalls)
    if not requests:
        raise GuardError(f"retrieval.requests == 0: {name} was never asked for anything.")
    if not any(text.strip() for text, _ in itertools.chain(*recalled)):
        raise GuardError(f"retrieval.hits == 0: {name} recalled nothing for {count} questions.")
    if episodes > 1 and recalled.count(recalled[0]) == count:
        raise GuardError(f"{name} recalled the same texts for all {count} questions.")
    if bare > MAX_BARE * count:
        raise GuardError(
            f"{name} recalled an answer that was never taught, and nothing else, for"
            f" {bare} of {count} questions: a memory recalls what it was taught."
        )


# ---------------------------------------------------------------- the command


def _parser() -> argparse.ArgumentParser:
    """Return the parser; its values are the arguments of `rulerlib.memory.work.expand`."""
    parser = commands.parser(
        "rulerlib.memory.bench",
        "[options]",
        "Teach memories sets of episodes, and ask a model about them.",
        "--suites episodic --presets rag --sizes 2 --seeds 7",
    )
    add = parser.add_argument
    add("--system", metavar="MODULE:CLASS", help=f"your memory, beside {', '.join(BESIDE)}")
    add("--suites", default="all", metavar="A,B", help=", ".join(SUITES))
    add("--presets", default="all", metavar="A,B", help=", ".join(presets.NAMES))
    # Numbers are read as text, so that wrong ones get the same error as everywhere else.
    add("--sizes", default=work.SIZES, metavar="N,N", help="episodes (50,200,1000)")
    add("--seeds", default=work.SEEDS, metavar="N,N", help="(1337,2025,4242)")
    add("--language", default="da", metavar="A,B", help="codes of languages (da)")
    add("--model", default="lille", help="a folder, a hub name, or lille")
    add("--engine", default="transformers", help=", ".join(models.ENGINES))
    add("--length", default=2048, type=errors.value, help="tokens of prompt and answer (2048)")
    add("--primary-em", default="norm", metavar="EM", help="norm or raw (norm)")
    add("--root", default="runs/memory", help="the folder of all runs (runs/memory)")
    add("--dry-run", action="store_true", help="print what would run")
    for name, target, text in SETTINGS:
        add(f"--{name}", dest=target, action="append", default=[], metavar="NAME=VALUE", help=text)
    return parser


def lines(works: Sequence[Work]) -> Iterator[str]:
    """Yield a line for each piece of work, with its exact match if it is finished, and the sum."""
    yield "   EM  questions  preset, language, suite: file"
    for job in works:
        score, path = "-", job.folder / METRICS
        if path.exists():
            score = f"{samples.read_object(path)['metrics'][job.recipe.suite]['em']:.3f}"
        yield f"{score:>5}  {job.asked:9,}  {job}: {job.folder / TABLE}"
    yield f"{len(works)} runs, {sum(job.asked for job in works):,} questions"


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code.

    Returns
    -------
    int
        0; 1 if a guard or an error stopped some of the work; 2 if a parameter is wrong; 130 after
        Ctrl-C.
    """
    given = vars(_parser().parse_args(arguments))
    system, is_dry = given.pop("system"), given.pop("dry_run")
    for name, target, _ in SETTINGS:
        given[target] = errors.settings(name, given[target], "k=3")
    if system:
        given["presets"] = [*BESIDE, system]
    works = work.expand(**given)
    if is_dry:
        check(works)
        print(*lines(works), sep="\n")
        return 0
    stopped = run(works)
    print(*lines(works), sep="\n")
    for sentence in stopped:
        print(sentence, file=sys.stderr)
    return 1 if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
