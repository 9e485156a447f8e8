"""The matrix of memories: suites, presets, sizes and seeds, taught, rehearsed and asked::

    python -m rulerlib.memory.bench --presets span_short,memory/hei_nw --dry-run
    python -m rulerlib.memory.bench --suites episodic --presets rag --sizes 2 --seeds 7

The first command prints all that would be run, the second one runs a little. Teaching, replay and
asking are three processes, one after the other, between which nothing passes but files; ``--step``
runs one of them. What is finished is not done again, and what was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerlib import commands, fields, languages
from rulerlib.errors import ParameterError, RulerError, require
from rulerlib.memory import planning, presets, running
from rulerlib.memory.suites import PROFILES, SUITES
from rulerlib.memory.work import SEEDS, SIZES, STEPS, Work, expand


def listed(parameter: str, text: str, names: Sequence[str] = ()) -> list[Any]:
    """Return what stands between commas; ``all`` stands for all ``names``."""
    if names and text.strip() == "all":
        return [*names]
    found = [part.strip() for part in text.split(",") if part.strip()]
    require(found, parameter, text, "one or several, with commas between them")
    return found if names else [fields.value(part) for part in found]


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
    add("--step", choices=STEPS, help="do this step alone, in this process")
    add("--works", metavar="FILE", help="run the work of this file instead, as JSON; -: of stdin")
    return parser


def works_of(given: argparse.Namespace) -> list[Work]:
    """Return the work that a command line asks for.

    Raises
    ------
    ParameterError, DataError
        As `rulerlib.memory.work.expand`; or if a file of work cannot be read.
    """
    if given.works is not None:
        return _read(given.works)
    return expand(
        listed("presets", given.presets, presets.NAMES),
        listed("suites", given.suites, [*SUITES]),
        listed("sizes", given.sizes),
        listed("seeds", given.seeds),
        listed("language", given.language, languages.available()),
        fields.settings("knob", given.knob, "facts=50"),
        fields.settings("set", given.set, "k=3"),
        model=given.model,
        engine=given.engine,
        engine_options=fields.settings("engine-option", given.engine_option, "dtype=float32"),
        length=fields.value(given.length),
        profile=given.profile,
        probes=fields.value(given.probes),
        root=given.root,
    )


def _read(name: str) -> list[Work]:
    """Return the work of a file, or of what is written to this process."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        rows = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ParameterError("works", name, f"a list in JSON ({error})") from error
    holds = isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)
    require(holds, "works", name, "a list in JSON, with one object for each")
    return [Work.from_dict(row) for row in rows]


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
        works = works_of(given)
        if given.step is not None:
            told = given.works == "-"
            outcome = running.step(works, given.step, given.primary_em, told)
            if told:
                # Whoever started this process reads what stopped some work beside its files.
                return 0
        elif given.dry_run:
            print(planning.table(works, planning.check(works)))
            return 0
        else:
            outcome = running.run(works, given.primary_em)
    except RulerError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped; the same command goes on where this one was.", file=sys.stderr)
        return 130
    if given.step is None:
        print(planning.results(works))
    for sentence in outcome.notes:
        print(sentence)
    for sentence in outcome.stopped:
        print(sentence, file=sys.stderr)
    return 1 if outcome.stopped else 0


if __name__ == "__main__":
    sys.exit(commands.run(main))
