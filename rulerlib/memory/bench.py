"""The matrix of memories: suites, presets, sizes and seeds, taught and asked::

    rulerlib memory --presets span_short,memory/hei_nw --dry-run
    rulerlib memory --suites episodic --presets rag --sizes 2 --seeds 7
    rulerlib memory run --system mine:Memory --model reference --engine reference --sizes 50

The first command prints all that would be run, the second one runs a little, the third one asks a
memory of your own beside none, a search, and the facts themselves. Each ends with a page of tables,
``report.html`` in the folder of all runs, and as Markdown ``report.md`` beside it. All that can be
known before anything is taught is checked first (`check`). What stops one piece of work stops no
other, and is tried again by the next run; what is finished is not done again. A process of its own
teaches (`rulerlib.memory.teaching`); this one asks (`rulerlib.memory.asking`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rulerlib import commands, fields, files, models, samples
from rulerlib.errors import RulerError, require
from rulerlib.memory import asking, measuring, presets, teaching
from rulerlib.memory.suites import PROFILES, SUITES
from rulerlib.memory.work import METRICS, SEEDS, SIZES, TABLE, Work, expand
from rulerlib.models import Model
from rulerlib.progress import Progress

# What a question counts on the bar where its episode is taught; where it is asked it counts 1.
_TEACHING = 0.1

BESIDE = ("span_short", "rag", "oracle")
"""The presets that a memory of one's own is compared with."""


def check(works: Sequence[Work]) -> None:
    """Check all work, which is asked of one model, before the first is begun.

    Raises
    ------
    ParameterError
        If the model cannot take a preset's system prompt or the length, a question alone has no
        room, two are the same, or memories that are asked alike recall different numbers of texts.
    DataError, MissingExtraError
        If a tokenizer or a language pack cannot be read.
    """
    require(works, "works", works, "at least one")
    model, folders = works[0].reader(), set[Path]()
    brings: dict[Any, tuple[str, Any]] = {}
    for job in works:
        preset = job.preset
        if preset.stores:
            name, k = brings.setdefault(
                preset.format(job.pack), (preset.short, preset.settings["k"])
            )
            what = f"{k}, what {name} has: presets that are compared recall as many texts"
            require(preset.settings["k"] == k, f"k of {preset.short}", preset.settings["k"], what)
        require(job.folder not in folders, "works", str(job), "left out, because it is there twice")
        folders.add(job.folder)
        prompts = asking.Prompts(job, model)
        for probe in job.recipe.first.probes:
            prompts.check_room(probe.text)


def run(works: Sequence[Work], quiet: bool = False) -> tuple[str, ...]:
    """Teach in a process of its own, then ask, with one bar for all that is not done yet.

    Can be stopped at any time, and goes on where it was.

    Parameters
    ----------
    works
        All of one model.
    quiet
        Draw no bar.

    Returns
    -------
    tuple of str
        A sentence for each reason that stopped some of it, and which.

    Raises
    ------
    RulerError
        If a parameter of any cannot work, before anything is begun; or if the process that teaches
        ended in a way that nobody foresaw.
    """
    check(works)
    for root in dict.fromkeys(job.root for job in works):
        files.check_writable(Path(root).expanduser())
    stopped = dict[Work, str]()
    left = [job for job in works if not _is_done(job)]
    untaught = [job for job in left if job.preset.stores]
    if left:
        weight = sum(job.asked for job in left) + _TEACHING * sum(job.asked for job in untaught)
        with Progress(weight, f"{len(left)} runs", quiet) as bar:
            # Nobody starts a process that has nothing to do.
            for job, sentence in teaching.taught_elsewhere(untaught) if untaught else ():
                if sentence is not None:
                    stopped[job] = sentence
                bar.update(_TEACHING * job.asked)
            ask(left, stopped, bar)
    for job in works:
        _check_oracle(job, stopped)
    by_reason: dict[str, list[Work]] = {}
    for job, sentence in stopped.items():
        by_reason.setdefault(sentence, []).append(job)
    return tuple(
        f"{jobs[0]}{f' and {len(jobs) - 1} more' if len(jobs) > 1 else ''}: {sentence}"
        for sentence, jobs in by_reason.items()
    )


def _is_done(job: Work) -> bool:
    """Return whether a piece of work is measured; what is wrong with it is told when it is done."""
    try:
        return measuring.is_measured(job)
    except RulerError:
        return False


def ask(works: Sequence[Work], stopped: dict[Work, str], progress: Progress | None = None) -> None:
    """Ask some work in this process and measure its answers; ``stopped`` gets what stopped any.

    What was stopped before, while it was taught, is not asked.
    """
    bar = Progress(0, "", quiet=True) if progress is None else progress
    model = works[0].reader()
    models.reserve(model, max(job.budget for job in works))
    for job in works:
        before = bar.n
        if job not in stopped:
            sentence = teaching.stopped(job, _ask_and_measure, model, bar)
            if sentence is not None:
                stopped[job] = sentence
        bar.skip(job.asked - (bar.n - before))


def _ask_and_measure(job: Work, model: Model, progress: Progress) -> None:
    asking.ask(job, model, progress)
    measuring.measure(job)


def _check_oracle(job: Work, stopped: dict[Work, str]) -> None:
    """Note where a finished memory is above its oracle by more than chance allows."""
    # An oracle that is asked in the same way.
    put = {name: getattr(job.preset, name) for name in presets.ASKED}
    oracle = replace(job, preset=presets.load("oracle", put))
    both_done = job.file(METRICS).exists() and oracle.file(METRICS).exists()
    if job.preset.stores and both_done:
        try:
            measuring.check_below(job.preset.short, measuring.rows(oracle), measuring.rows(job))
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
    # Numbers are read as texts, so that a wrong one is told as everywhere else.
    add("--sizes", default=",".join(map(str, SIZES)), metavar="N,N", help="episodes (50,200,1000)")
    add("--seeds", default=",".join(map(str, SEEDS)), metavar="N,N", help="(1337,2025,4242)")
    add("--language", default="da", metavar="A,B", help="codes of languages (da)")
    add("--model", default="lille", help="a folder, a hub name, or lille")
    add("--engine", default="transformers", help=", ".join(models.ENGINES))
    add("--length", default="2048", help="tokens of a prompt and its answer (2048)")
    add("--profile", default="default", help=f"{', '.join(PROFILES)} (default)")
    add("--probes", default="1", help="questions for each episode (1)")
    for name, text in (
        ("--knob", "a knob of the suites that have it"),
        ("--set", "a setting of the presets that have it: gate=false, k=3"),
        ("--engine-option", "an option of the engine"),
    ):
        add(name, action="append", default=[], metavar="NAME=VALUE", help=text)
    add("--root", default="runs/memory", help="the folder of all runs (runs/memory)")
    add("--dry-run", action="store_true", help="print what would be run")
    return parser


def table(works: Sequence[Work]) -> str:
    """Return a line for each piece of work, with its score where it is finished, and the sums."""
    head = ("preset", "language", "suite", "questions", "facts", "EM norm", "file")
    rows: list[tuple[str, ...]] = [head]
    facts = [job.recipe.size * len(job.recipe.first.facts) for job in works]
    done = [job for job in works if job.file(METRICS).exists()]
    for job, taught in zip(works, facts, strict=True):
        scores = samples.read_object(job.file(METRICS))["metrics"] if job in done else {}
        share = f"{scores[job.recipe.suite]['em_norm']:.3f}" if scores else "-"
        about = job.preset.short, job.recipe.language, job.cell.label, f"{job.asked:,}"
        rows.append((*about, f"{taught:,}", share, str(job.file(TABLE))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    questions = sum(job.asked for job in works)
    total = f"{len(works)} runs ({len(done)} finished), {questions:,} questions"
    return "\n".join([*lines, f"{total}, {sum(facts):,} facts"])


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line asks for, and return the exit code.

    Returns
    -------
    int
        0; 1 where a guard or an error stopped some of the work; 2 where nothing was begun, because
        a parameter cannot work; 130 after Ctrl-C.
    """
    given = _parser().parse_args(arguments)
    works = expand(
        [*BESIDE, given.system] if given.system else given.presets, given.suites, given.sizes,
        given.seeds, given.language, fields.settings("knob", given.knob, "facts=50"),
        fields.settings("set", given.set, "k=3"),
        model=given.model, engine=given.engine, length=fields.value(given.length),
        engine_options=fields.settings("engine-option", given.engine_option, "dtype=float32"),
        profile=given.profile, probes=fields.value(given.probes), root=given.root,
    )  # fmt: skip
    if given.dry_run:
        check(works)
        print(table(works))
        return 0
    stopped = run(works)
    print(table(works))
    for sentence in stopped:
        print(sentence, file=sys.stderr)
    # It reads the tables with pandas, which nothing else here needs.
    from rulerlib.memory import page

    folders, path = [job.folder for job in works], Path(given.root).expanduser() / "report.html"
    print(f"The page: {page.write(path, folders, stopped)}")
    return 1 if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
