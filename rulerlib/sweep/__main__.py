"""The commands of a sweep: ``python -m rulerlib.sweep plan|run|serve|status|collect PLAN``.

The exit code is 0 where all went well, 1 where a cell failed or is missing, and 2 where the plan or
the command cannot work.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rulerlib import commands
from rulerlib.errors import RulerError, one_of, require
from rulerlib.progress import Progress
from rulerlib.sweep import cells, run, servers, state
from rulerlib.sweep.collect import Collected, collect
from rulerlib.sweep.plan import Plan
from rulerlib.sweep.speeds import Speeds
from rulerlib.sweep.status import status
from rulerlib.sweep.sweep import Sweep, accept, folder_of, listed

FAILED, WRONG = 1, 2

# Seconds between two looks of `status --follow`.
_PAUSE = 2.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line asks for, and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        return int(given.do(given))
    except RulerError as error:
        print(error, file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print("Stopped; what was answered is kept.", file=sys.stderr)
        return 130


def _plan(given: argparse.Namespace) -> int:
    plan = Plan.from_file(given.plan)
    outline = cells.outline(plan)
    sweep, gone = accept(plan, outline)
    prompts, tokens = outline.size(plan)
    needed = cells.disk_needed(plan, outline)
    size = f"{needed / 1e9:,.1f} GB" if needed >= 1e8 else f"{needed / 1e6:,.1f} MB"
    print(
        f"{sweep.folder}: {len(outline.cells)} cells in {len(sweep.jobs)} jobs; {prompts:,} prompts"
        f" of {tokens:,} tokens at most, about {size} on disk."
    )
    if outline.left_out:
        few = "; ".join(outline.left_out[:6])
        more = len(outline.left_out) - 6
        print(f"Left out: {few}{f'; and {more} more' if more > 0 else ''}.")
    if gone:
        print(f"No longer planned, and left as they are: {listed(gone)}.")
    print(_estimate(sweep))
    return 0


def _estimate(sweep: Sweep) -> str:
    """Return how long a sweep takes, as a sentence."""
    speeds, hours = Speeds.of(sweep), 0.0
    gpu_hours, unknown = 0.0, []
    for job in sweep.jobs:
        model, _, _ = job.key
        known = speeds.together(sweep.plan, job.cells)
        if known is None:
            unknown.append(model)
        else:
            hours += known
            gpu_hours += known * sweep.plan.models[model].resources.gpus
    names = ", ".join(dict.fromkeys(unknown))
    said = f"By the speeds measured so far: {hours:.1f} hours, {gpu_hours:.1f} of them GPU hours."
    none = f"No speed was measured yet of {names}: how long it takes is not known."
    return " ".join([*([said] if hours else []), *([none] if names else [])])


def _run(given: argparse.Namespace) -> int:
    sweep = Sweep.load(given.plan)
    jobs = [sweep.job(name) for name in given.names] or [*sweep.jobs]
    if not jobs:
        return 0
    # Before torch is loaded: more threads than processors wait for each other.
    cpus = max(sweep.plan.models[job.key[0]].resources.cpus for job in jobs)
    os.environ.setdefault("OMP_NUM_THREADS", str(cpus))
    failures: list[run.Failure] = []
    work = sum(sweep.work(cell) for job in jobs for cell in job.cells)
    stopped = None
    with Progress(work, f"{len(jobs)} jobs" if len(jobs) > 1 else jobs[0].name) as bar:
        for job in jobs:
            try:
                done = run.run(sweep, job, lambda cell: bar.advance(sweep.work(cell)))
            except RulerError as error:
                # Another model may work; but a job that is asked for alone says it.
                print(f"{job.name}: {error}", file=sys.stderr, flush=True)
                stopped = job
                continue
            failures += done.failures
            counted = f"{done.answered} answered, {done.skipped} were done"
            print(f"{job.name}: {counted}, {len(done.failures)} failed", flush=True)
    for failure in failures:
        times = "once" if failure.tries == 1 else f"{failure.tries} times"
        print(f"{failure.cell} failed {times}: {failure.error}", file=sys.stderr)
    return FAILED if failures or stopped else 0


def _serve(given: argparse.Namespace) -> int:
    sweep = Sweep.load(given.plan)
    entry = sweep.plan.models[one_of("model", given.model, sweep.plan.models)]
    server = entry.server
    command = None if server is None else server.command
    require(command, "model", entry.name, "one whose server the plan starts by a command")
    assert server is not None
    assert command is not None
    jobs = [job for job in sweep.jobs if job.key[0] == entry.name]
    place = sweep.address(entry.name)
    servers.serve(
        command, place, sweep.folder / "logs" / f"server-{entry.name}.log", server.wait_minutes,
        finished=lambda: all(sweep.mark(job).exists() for job in jobs),
        busy=lambda: any(state.holder(sweep.lock(job)) for job in jobs),
    )  # fmt: skip
    return 0


def _folder(given: argparse.Namespace) -> int:
    print(folder_of(given.plan))
    return 0


def _status(given: argparse.Namespace) -> int:
    sweep = Sweep.load(given.plan)
    parent = os.getppid()
    if given.follow and not sys.stderr.isatty():
        # A bar that is drawn again and again makes no sense in a file.
        return 0
    while True:
        now = status(sweep)
        if not given.follow:
            print(now)
            return FAILED if now.cells["failed"] else 0
        line, *_ = str(now).splitlines()
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        # It ends with the command that it was started for.
        if now.finished or os.getppid() != parent:
            print(file=sys.stderr)
            return 0
        time.sleep(_PAUSE)


def _collect(given: argparse.Namespace) -> int:
    sweep = Sweep.load(given.plan)
    found = collect(sweep)
    made: list[Path] = []
    failed: list[str] = []
    if not given.no_reports:
        from rulerlib.sweep.reports import reports

        made, failed = reports(sweep, found.rows)
    print(_table(found))
    print(f"{sweep.folder}: scores.csv, cells.csv, costs.csv" + (
        f", and {len(made)} executed notebooks in reports/" if made else ""
    ))  # fmt: skip
    now = status(sweep)
    for sentence in [*now.failures, *failed]:
        print(sentence, file=sys.stderr)
    if found.missing:
        print(f"Missing: {listed(found.missing)}", file=sys.stderr)
    return FAILED if found.missing or failed else 0


def _table(found: Collected) -> str:
    """Return where the time went, as a table for a terminal."""
    columns = ["model", "length", "cells", "mean", "hours", "gpu_hours", "answers_per_hour",
               "cached", "slowest"]  # fmt: skip
    if any(row["memory"] for row in found.costs):
        columns.insert(1, "memory")
    rows = [[_cell(row[name]) for name in columns] for row in found.costs]
    rows.insert(0, [name.replace("_", " ") for name in columns])
    widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
             for row in rows)  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) and value < 1000 else (
        f"{value:,.0f}" if isinstance(value, float) else str(value)
    )  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = commands.parser(
        "rulerlib.sweep",
        "COMMAND PLAN [options]",
        "Plan a sweep, run its jobs, say how far it is, and collect its answers.",
        "plan params/sweeps/small.yaml",
    )
    # Of a command itself, too.
    parts = parser.add_subparsers(required=True, metavar="COMMAND", prog=parser.prog)

    def command(name: str, do: object, about: str) -> argparse.ArgumentParser:
        added = parts.add_parser(name, help=about, description=about)
        added.add_argument("plan", metavar="PLAN", help="the file of the plan, or its folder")
        added.set_defaults(do=do)
        return added

    command("plan", _plan, "Check a plan and write its jobs.")
    of_run = command("run", _run, "Run jobs: those that are named, or all.")
    of_run.add_argument("names", nargs="*", metavar="JOB", help="a job, or a cell")
    of_serve = command("serve", _serve, "Start the server of a model, until its jobs are done.")
    of_serve.add_argument("model", metavar="MODEL", help="what the plan calls the model")
    command("folder", _folder, "Say where a sweep stands.")
    of_status = command("status", _status, "Say what is done, running, failed and left.")
    of_status.add_argument("--follow", action="store_true", help="draw a bar until all is done")
    of_collect = command("collect", _collect, "Write the tables and execute the notebooks.")
    of_collect.add_argument("--no-reports", action="store_true", help="the tables alone")
    return parser


if __name__ == "__main__":
    sys.exit(commands.run(main))
