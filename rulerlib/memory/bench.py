"""The memory benchmark: for each episode teach, close, reopen, ask; then answer and score.

    rulerlib memory --presets span_short,memory/hei_nw --dry-run
    rulerlib memory --suites episodic --presets rag --sizes 2 --seeds 7
    rulerlib memory --system mine:Memory --model reference --engine reference --sizes 50

The first command prints what would run, the second one is a small run, and the third one compares
a memory of your own with none, with random texts, with a search, and with the facts themselves.
Each ends with a page of tables, ``report.html``, and its Markdown version ``report.md``.

All parameters are checked before anything is taught. An error stops only the piece of work in
which it occurs. Finished work is skipped, and an interrupted command resumes.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import commands, files, models, parsing, predict, samples, store
from rulerlib.errors import ParameterError, RulerError, shortened
from rulerlib.languages import Language
from rulerlib.memory import measures, outside, presets
from rulerlib.memory.delivered import Needs
from rulerlib.memory.episodes import Episode, Probe
from rulerlib.memory.measures import GuardError
from rulerlib.memory.outside import OutsideMemory, Recall
from rulerlib.memory.presets import Preset
from rulerlib.memory.prompting import asked, beside, fitted, leak
from rulerlib.memory.suites import PROFILES, SUITES
from rulerlib.memory.system import Recalled, Text
from rulerlib.memory.work import (
    METRICS,
    PRIMARY_EM,
    SEEDS,
    SIZES,
    STORE,
    TABLE,
    TELEMETRY,
    Work,
    expand,
)  # fmt: skip
from rulerlib.models import Model
from rulerlib.progress import Progress
from rulerlib.samples import Sample

BESIDE = ("span_short", "random", "rag", "oracle")
"""The presets with which a memory of your own is compared."""

MAX_BARE = 0.1
"""The largest share of questions for which a text may be a bare answer that was never taught."""


# ---------------------------------------------------------------- teach, ask, score


def run(works: Sequence[Work], quiet: bool = False) -> tuple[str, ...]:
    """Run all work of one model that is not finished.

    Parameters
    ----------
    works
        Pieces of work with the same model.
    quiet
        Whether to show no progress bar.

    Returns
    -------
    tuple of str
        One sentence for each error or guard that stopped some of the work.

    Raises
    ------
    RulerError
        If a parameter is not allowed, before anything is taught.
    """
    check(works)
    for root in {job.root for job in works}:
        files.check_writable(Path(root).expanduser())
    stopped, model = dict[Work, str](), works[0].reader()
    models.reserve(model, max(job.budget for job in works))
    with Progress(sum(job.asked for job in works), f"{len(works)} runs", quiet) as bar:
        for job in works:
            before = bar.n
            try:
                if not measures.is_measured(job):
                    run_one(job, model, bar)
            except RulerError as error:
                stopped[job] = str(error)
            bar.skip(job.asked - (bar.n - before))
    for job in works:
        _check_oracle(job, stopped)
    by_sentence: dict[str, list[Work]] = {}
    for job, sentence in stopped.items():
        by_sentence.setdefault(sentence, []).append(job)
    return tuple(
        f"{jobs[0]}{f' and {len(jobs) - 1} more' if len(jobs) > 1 else ''}: {sentence}"
        for sentence, jobs in by_sentence.items()
    )


def run_one(job: Work, model: Model, progress: Progress | None = None) -> None:
    """Run one piece of work: teach and ask its memory, let the model answer, and score.

    Raises
    ------
    RulerError
        If a guard stops it, a file is damaged, or the model fails.
    """
    with files.lock(job.file(METRICS)):
        path = store.write_questions(Questions(job, model), job.questions_path.parent)
        predict.predict(
            path, model, job.answers_path, job.preset.format(job.pack), job.preset.decoding(),
            progress=progress, cell=job.cell.settings(),
        )  # fmt: skip
        measures.write(job)


class Questions:
    """The questions of a piece of work, each with what the memory recalled for it.

    Iterating teaches the memory, unless the file of questions is already there.

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
        self._job, self._model, self._frame = job, model, job.frame(model)
        self._prefix = asked(job.pack, "", ()).answer_prefix

    def __len__(self) -> int:
        return self._job.asked

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._recalled() if self._job.preset.stores else self._in_context())

    def _in_context(self) -> Iterator[Sample]:
        """Yield the questions of a preset without a memory system."""
        places = itertools.count()
        for item in self._job.recipe:
            for probe in item.episode.probes:
                texts = in_context(self._job.preset.system, item.episode, probe)
                yield self._sample(next(places), item.episode, probe, texts)

    def _recalled(self) -> list[Sample]:
        """Return the questions of a memory: for each episode teach, close, reopen, ask."""
        job, name, made, log = self._job, self._job.preset.short, list[Sample](), _Log()
        temporary = tempfile.TemporaryDirectory(prefix="rulerlib-")
        with temporary as root, _memory(job) as teacher, _memory(job) as asker:
            for number, item in enumerate(job.recipe):
                folder, episode = Path(root) / str(number), item.episode
                folder.mkdir()
                log.stats.update(self._teach(teacher, folder, episode))
                before = _hashes(folder)
                recalls = asker.recall(folder, [probe.text for probe in episode.probes])
                changed = sorted(path for path, _ in before.items() ^ _hashes(folder).items())
                if changed:
                    raise GuardError(
                        f"{name} changed {changed[0]!r} in its store while it was asked:"
                        " recall must not change what is stored."
                    )
                for probe, (found, seconds) in zip(episode.probes, recalls, strict=True):
                    texts = [text for text, _ in found]
                    log.texts.append(texts)
                    log.microseconds.append(round(seconds * 1e6))
                    if job.preset.is_outside:
                        needs = Needs(episode, probe, job.pack)
                        log.bare += any(map(needs.is_bare_answer, texts))
                    made.append(self._sample(len(made), episode, probe, found))
            kept = any(path.is_file() for path in Path(root).rglob("*"))
            # A memory from outside need not tell how many texts it keeps.
            if not (kept if job.preset.is_outside else log.stats["stored"]):
                raise GuardError(f"The store of {name} is empty after teaching.")
            log.check(name, asker.requests, job.recipe.size)
            log.write(job, Path(root))
        return made

    def _teach(
        self, teacher: LocalMemory | OutsideMemory, folder: Path, episode: Episode
    ) -> dict[str, float]:
        """Teach an episode session by session, each on a memory that is opened anew."""
        stats: dict[str, float] = {}
        for _, told in itertools.groupby(episode.facts, key=attrgetter("session")):
            stats = teacher.teach(folder, [Text.of(fact) for fact in told])
        return stats

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
            "tokenizer": self._model.tokenizer.name,
            "tokenizer_fingerprint": self._model.tokenizer.fingerprint,
            **self._frame.format.settings(),
            "rulerlib": rulerlib.__version__,
        }

    def check_room(self, question: str) -> None:
        """Check that a question fits into the budget without recalled texts.

        Raises
        ------
        ParameterError
            If it does not.
        """
        job = self._job
        least = self._count(asked(job.pack, question, ()).text) + job.preset.max_new_tokens
        if job.budget < least:
            allowed = f"at least {least}, the tokens of a question alone and its answer"
            raise ParameterError(job.budget_name, job.budget, allowed)

    def _count(self, text: str) -> int:
        """Return the number of prompt tokens of a question."""
        whole = self._frame.prompt(text, self._prefix)
        return self._model.tokenizer.count(whole) + self._frame.special

    def _sample(
        self, index: int, episode: Episode, probe: Probe, shown: Sequence[Recalled]
    ) -> Sample:
        """Return a question with as many of the recalled texts as fit."""
        job, tokenizer = self._job, self._model.tokenizer
        texts, answer = [recalled.text for recalled in shown], job.preset.max_new_tokens
        self.check_room(probe.text)

        def fits(kept: Sequence[str]) -> bool:
            if job.preset.stores and tokenizer.count("\n".join(kept)) > job.preset.recall_tokens:
                return False
            return self._count(asked(job.pack, probe.text, kept).text) <= job.budget - answer

        kept = fitted(texts, fits, last=job.preset.system == "all")
        put = asked(job.pack, probe.text, texts[kept])
        self._check_prompt(put.text, texts[kept], episode)
        whole = put.text + self._frame.prefix(self._prefix)
        return Sample(
            index=index,
            input=put.text,
            outputs=list(probe.golds),
            length=tokenizer.count(whole) + answer,
            length_w_model_temp=self._count(put.text) + answer,
            answer_prefix=self._prefix,
            task=job.recipe.suite,
            language=job.recipe.language,
            parts=put.parts,
            golds=[[gold] for gold in probe.golds],
            id=f"{episode.id}/{index % job.recipe.probes}",
            cluster=episode.id,
            facts=measures.judge(job, episode, probe, shown, kept),
        )

    def _check_prompt(self, text: str, kept: Sequence[str], episode: Episode) -> None:
        """Check that a prompt holds what was recalled, and nothing else of the episode."""
        prompt = self._frame.prompt(text, self._prefix)
        for line in kept:
            if line not in prompt:
                raise GuardError(f"A recalled text is not in the prompt: {shortened(line, 120)}.")
        leaked = leak(beside(prompt, kept), [fact.text for fact in episode.facts])
        if leaked is not None:
            raise GuardError(
                f"A prompt holds a taught text that was not recalled: {shortened(leaked, 120)}."
            )


def in_context(system: str, episode: Episode, probe: Probe) -> list[Recalled]:
    """Return the facts that a preset without a memory system shows, in their order."""
    shown = {"none": (), "all": range(len(episode.facts)), "needed": sorted(probe.needs)}
    numbers: Iterable[int] = shown[system]
    return [Recalled(episode.facts[number].text, (number,)) for number in numbers]


# ---------------------------------------------------------------- the memory


class LocalMemory:
    """A memory system of this package, opened for each call as an `OutsideMemory` is."""

    def __init__(self, preset: Preset, language: Language) -> None:
        self._preset, self._language = preset, language
        self.requests = 0

    def _opened(self, folder: Path) -> Any:
        return presets.opened(self._preset.system, folder, self._language, **self._preset.settings)

    def teach(self, folder: Path, texts: Sequence[Text]) -> dict[str, float]:
        """Teach the texts of one session of an episode; return what the system counts."""
        return outside.teach(self._opened(folder), texts)

    def recall(self, folder: Path, asked_for: Sequence[str]) -> list[Recall]:
        """Return what is recalled for each question about an episode."""
        system = self._opened(folder)
        recalls = outside.recall(system, asked_for)
        self.requests += system.requests
        return [Recall(texts, seconds) for texts, seconds in recalls]


@contextlib.contextmanager
def _memory(job: Work) -> Iterator[LocalMemory | OutsideMemory]:
    if not job.preset.is_outside:
        yield LocalMemory(job.preset, job.pack)
        return
    with OutsideMemory(job.preset.system, job.preset.settings) as memory:
        yield memory


@dataclass
class _Log:
    """What happened while a memory was taught and asked, and the guards on it."""

    stats: Counter[str] = field(default_factory=Counter)
    texts: list[list[str]] = field(default_factory=list)
    microseconds: list[int] = field(default_factory=list)
    bare: int = 0

    def check(self, name: str, requests: int, episodes: int) -> None:
        """Raise a `GuardError` if the numbers of a run would be misleading."""
        texts, count = self.texts, len(self.texts)
        if not requests:
            raise GuardError(f"retrieval.requests == 0: {name} was never asked for anything.")
        if not any(text.strip() for text in itertools.chain(*texts)):
            raise GuardError(f"retrieval.hits == 0: {name} recalled nothing for {count} questions.")
        if episodes > 1 and texts.count(texts[0]) == count:
            raise GuardError(f"{name} recalled the same texts for all {count} questions.")
        if self.bare > MAX_BARE * count:
            raise GuardError(
                f"{name} recalled an answer that was never taught, and nothing else, for"
                f" {self.bare} of {count} questions: a memory recalls what it was taught."
            )

    def write(self, job: Work, root: Path) -> None:
        """Keep the store, and write the telemetry."""
        paths = [path for path in root.rglob("*") if path.is_file()]
        telemetry = {
            "requests": len(self.texts), "hits": sum(map(bool, self.texts)),
            "files": len(paths), "bytes": sum(path.stat().st_size for path in paths),
            **self.stats, "microseconds": self.microseconds,
        }  # fmt: skip
        store = job.file(STORE)
        with files.saving(store):
            shutil.rmtree(store, ignore_errors=True)
            shutil.copytree(root, store)
        files.write_object(job.file(TELEMETRY), telemetry)


def _hashes(folder: Path) -> dict[str, str]:
    """Return a hash of each file in a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


# ---------------------------------------------------------------- checks


def check(works: Sequence[Work]) -> None:
    """Check all work of one model before any of it begins.

    Raises
    ------
    ParameterError
        If the model cannot take a system prompt or the length, if a question has no room, if two
        pieces of work are the same, or if memories that are compared have different
        ``recall_tokens``.
    DataError, MissingExtraError
        If a tokenizer or a language pack cannot be read.
    """
    if not works:
        raise ParameterError("works", works, "at least one")
    model, folders, limits = works[0].reader(), set[Path](), dict[Any, Preset]()
    for job in works:
        preset = job.preset
        if preset.stores:
            first = limits.setdefault(preset.format(job.pack), preset)
            if preset.recall_tokens != first.recall_tokens:
                allowed = f"{first.recall_tokens}, as in {first.short}, to be compared with it"
                name = f"recall_tokens of {preset.short}"
                raise ParameterError(name, preset.recall_tokens, allowed)
        if job.folder in folders:
            raise ParameterError("works", str(job), "left out, because it is there twice")
        folders.add(job.folder)
        prompts = Questions(job, model)
        for probe in job.recipe.first.probes:
            prompts.check_room(probe.text)


def _check_oracle(job: Work, stopped: dict[Work, str]) -> None:
    """Stop a finished memory that is above its oracle by more than chance allows."""
    if not job.preset.stores or not job.file(METRICS).exists():
        return
    same_asking = {name: getattr(job.preset, name) for name in presets.ASKED}
    oracle = replace(job, preset=presets.load("oracle", same_asking))
    if oracle.file(METRICS).exists():
        try:
            measures.check_below(job.preset.short, measures.rows(oracle), measures.rows(job))
        except RulerError as error:
            stopped[job] = str(error)


# ---------------------------------------------------------------- the command


def _parser() -> argparse.ArgumentParser:
    parser = commands.parser(
        "rulerlib.memory.bench",
        "[options]",
        "Teach memories sets of episodes, and ask a model about them.",
        "--suites episodic --presets rag --sizes 2 --seeds 7",
    )
    add = parser.add_argument
    add("run", nargs="?", choices=["run"], help=argparse.SUPPRESS)
    add("--system", metavar="MODULE:CLASS", help=f"your memory, beside {', '.join(BESIDE)}")
    add("--suites", default="all", metavar="A,B", help=", ".join(SUITES))
    add("--presets", default="all", metavar="A,B", help=", ".join(presets.NAMES))
    # Numbers are read as text, so that wrong ones get the same error as everywhere else.
    add("--sizes", default=",".join(map(str, SIZES)), metavar="N,N", help="episodes (50,200,1000)")
    add("--seeds", default=",".join(map(str, SEEDS)), metavar="N,N", help="(1337,2025,4242)")
    add("--language", default="da", metavar="A,B", help="codes of languages (da)")
    add("--model", default="lille", help="a folder, a hub name, or lille")
    add("--engine", default="transformers", help=", ".join(models.ENGINES))
    add("--length", default="2048", help="tokens of a prompt and its answer (2048)")
    add("--profile", default="default", help=f"{', '.join(PROFILES)} (default)")
    add("--probes", default="1", help="questions for each episode (1)")
    add("--primary-em", default="norm", metavar="EM", help=f"{', '.join(PRIMARY_EM)} (norm)")
    for name, text in (
        ("--knob", "a knob of the suites that have it"),
        ("--set", "a setting of the presets that have it: gate=false, k=3"),
        ("--engine-option", "an option of the engine"),
    ):
        add(name, action="append", default=[], metavar="NAME=VALUE", help=text)
    add("--root", default="runs/memory", help="the folder of all runs (runs/memory)")
    add("--dry-run", action="store_true", help="print what would run")
    return parser


def table(works: Sequence[Work]) -> str:
    """Return a line for each piece of work, with its score if it is finished, and the totals."""
    rows = [("preset", "language", "suite", "questions", "facts", "EM", "file")]
    finished = facts = 0
    for job in works:
        score, taught = "-", job.recipe.size * len(job.recipe.first.facts)
        if job.file(METRICS).exists():
            scores = samples.read_object(job.file(METRICS))["metrics"]
            score = f"{scores[job.recipe.suite]['em']:.3f}"
            finished += 1
        facts += taught
        preset = " ".join(
            [job.preset.given, *map("{0[0]}={0[1]}".format, job.preset.changes.items())]
        )
        rows.append((preset, job.recipe.language, job.cell.label, f"{job.asked:,}",
                     f"{taught:,}", score, str(job.file(TABLE))))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    total = (
        f"{len(works)} runs ({finished} finished), {sum(job.asked for job in works):,} questions"
    )
    return "\n".join([*lines, f"{total}, {facts:,} facts"])


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code.

    Returns
    -------
    int
        0; 1 if a guard or an error stopped some of the work; 2 if a parameter is wrong; 130 after
        Ctrl-C.
    """
    given = _parser().parse_args(arguments)
    works = expand(
        [*BESIDE, given.system] if given.system else given.presets, given.suites, given.sizes,
        given.seeds, given.language, parsing.settings("knob", given.knob, "facts=50"),
        parsing.settings("set", given.set, "k=3"),
        model=given.model, engine=given.engine, length=parsing.value(given.length),
        engine_options=parsing.settings("engine-option", given.engine_option, "dtype=float32"),
        profile=given.profile, probes=parsing.value(given.probes), root=given.root,
        primary_em=given.primary_em,
    )  # fmt: skip
    if given.dry_run:
        check(works)
        print(table(works))
        return 0
    stopped = run(works)
    print(table(works))
    for sentence in stopped:
        print(sentence, file=sys.stderr)
    # It needs pandas.
    from rulerlib.memory import page

    path = Path(given.root).expanduser() / "report.html"
    print(f"The page: {page.write(path, [job.folder for job in works], stopped)}")
    return 1 if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
