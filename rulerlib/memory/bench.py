"""The matrix of memories: suites, presets, sizes and seeds, taught, rehearsed and asked::

    python -m rulerlib.memory.bench --presets span_short,memory/hei_nw --dry-run
    python -m rulerlib.memory.bench --suites episodic --presets rag --sizes 2 --seeds 7

The first command prints all that would be run, the second one runs a little. What is finished is
not done again, and what was stopped goes on where it was; see `rulerlib.memory.running`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rulerlib import commands, fields, samples
from rulerlib.errors import RulerError
from rulerlib.memory import presets, running
from rulerlib.memory.suites import PROFILES, SUITES
from rulerlib.memory.work import METRICS, SEEDS, SIZES, TABLE, Work, expand


def _parser() -> argparse.ArgumentParser:
    parser = commands.parser(
        "rulerlib.memory.bench",
        "[options]",
        "Teach memories sets of episodes, and ask a model about them.",
        "--suites episodic --presets rag,memory/hei_nw --sizes 2 --seeds 7",
    )
    add = parser.add_argument
    add("--suites", default="all", metavar="A,B", help=", ".join(SUITES))
    add("--presets", default="all", metavar="A,B", help=", ".join(presets.NAMES))
    # Numbers are read as texts, so that a wrong one is told as everywhere else.
    add("--sizes", default=",".join(map(str, SIZES)), metavar="N,N", help="episodes (50,200,1000)")
    add("--seeds", default=",".join(map(str, SEEDS)), metavar="N,N", help="(1337,2025,4242)")
    add("--language", default="da", metavar="A,B", help="codes of languages (da)")
    add("--model", default="lille", help="a folder, a hub name, or lille")
    add("--engine", default="transformers", help="transformers, vllm or openai")
    add("--length", default="2048", help="tokens of a prompt and its answer (2048)")
    add("--profile", default="default", help=f"{', '.join(PROFILES)} (default)")
    add("--probes", default="1", help="questions for each episode (1)")
    for name, text in (
        ("--knob", "a knob of the suites that have it"),
        ("--set", "a setting of the presets that have it: gate=false, k=3"),
        ("--engine-option", "an option of the engine"),
    ):
        add(name, action="append", default=[], metavar="NAME=VALUE", help=text)
    add("--primary-em", default="norm", help="exact match normalized or raw: norm, raw (norm)")
    add("--root", default="runs/memory", help="the folder of all runs (runs/memory)")
    add("--dry-run", action="store_true", help="print what would be run")
    return parser


def planned(works: Sequence[Work]) -> str:
    """Return a line for each piece of work, and their sums, as a text."""
    head = ("preset", "language", "suite", "questions", "facts", "file")
    facts = [job.size * len(job.first.facts) for job in works]
    rows = [
        (f"{job.asked:,}", f"{taught:,}", str(job.file(TABLE)))
        for job, taught in zip(works, facts, strict=True)
    ]
    done = sum(job.file(METRICS).exists() for job in works)
    questions = sum(job.asked for job in works)
    total = f"{len(works)} runs ({done} finished), {questions:,} questions, {sum(facts):,} facts"
    return f"{_aligned(head, works, rows)}\n{total}"


def results(works: Sequence[Work]) -> str:
    """Return a line for each piece of work that is finished: its exact match, and F1."""
    head = ("preset", "language", "suite", "n", "EM norm", "EM raw", "F1", "file")
    done, rows = [job for job in works if job.file(METRICS).exists()], []
    for job in done:
        scores = samples.read_object(job.file(METRICS))["metrics"][job.suite]
        shares = (f"{scores[name]:.3f}" for name in ("em_norm", "em_raw", "f1"))
        rows.append((str(scores["n"]), *shares, str(job.file(METRICS))))
    return _aligned(head, done, rows)


def _aligned(head: Sequence[str], works: Sequence[Work], rows: Sequence[Sequence[str]]) -> str:
    """Return lines in columns: what a piece of work is and its file stand left, all else right."""
    table = [head]
    table += [(job.settings.short, job.language, job.cell.label, *row)
              for job, row in zip(works, rows, strict=True)]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides = ["<"] * 3 + [">"] * (len(head) - 4) + ["<"]
    return "\n".join(
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in table
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line asks for, and return the exit code.

    Returns
    -------
    int
        0; 1 where a guard or an error stopped some of the work; 2 where nothing was begun, because
        a parameter cannot work; 130 after Ctrl-C.
    """
    given = _parser().parse_args(arguments)
    try:
        works = expand(
            given.presets, given.suites, given.sizes, given.seeds, given.language,
            fields.settings("knob", given.knob, "facts=50"),
            fields.settings("set", given.set, "k=3"),
            model=given.model, engine=given.engine, length=fields.value(given.length),
            engine_options=fields.settings("engine-option", given.engine_option, "dtype=float32"),
            profile=given.profile, probes=fields.value(given.probes), root=given.root,
        )  # fmt: skip
        if given.dry_run:
            running.check(works)
            print(planned(works))
            return 0
        report = running.run(works, given.primary_em)
    except RulerError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped; the same command goes on where this one was.", file=sys.stderr)
        return 130
    print(results(works))
    for sentence in report.notes:
        print(sentence)
    for sentence in report.stopped:
        print(sentence, file=sys.stderr)
    return 1 if report.stopped else 0


if __name__ == "__main__":
    sys.exit(commands.run(main))
