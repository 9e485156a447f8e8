"""The commands of a sweep: ``rulerlib sweep plan|run|serve|status|collect PLAN``.

The exit code is 0 where all went well, 1 where a cell failed or is missing, and 2 where the plan or
the command cannot work.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from rulerlib import commands, files
from rulerlib.errors import ParameterError, RulerError, one_of
from rulerlib.labels import listed
from rulerlib.sweep import run, servers
from rulerlib.sweep.collect import collect
from rulerlib.sweep.plan import Plan, disk_needed, outline
from rulerlib.sweep.status import status
from rulerlib.sweep.sweep import Sweep, accept, folder_of

FAILED = 1

# Seconds between two looks of `status --follow`.
_PAUSE = 2.0


@commands.command()
def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line asks for, and return the exit code."""
    given = _parser().parse_args(arguments)
    return int(given.do(given))


def _plan(given: argparse.Namespace) -> int:
    plan = Plan.from_file(given.plan)
    cells, left_out = outline(plan)
    sweep, gone = accept(plan, cells)
    prompts = sum(cell.answers for cell in cells)
    tokens = sum(cell.length * cell.answers for cell in cells)
    needed = disk_needed(plan, cells) / 1e6
    print(
        f"{sweep.folder}: {len(cells)} cells in {len(sweep.jobs)} jobs; {prompts:,} prompts"
        f" of {tokens:,} tokens at most, about {needed:,.1f} MB on disk."
    )
    if left_out:
        print(f"Left out: {listed(left_out, comma='; ')}.")
    if gone:
        print(f"No longer planned, and left as they are: {listed(gone)}.")
    return 0


def _run(given: argparse.Namespace) -> int:
    sweep = Sweep.load(given.plan)
    by_name = {job.name: job for job in sweep.jobs}
    jobs = [by_name[one_of("job", name, by_name)] for name in given.names or by_name]
    # Before torch is loaded: more threads than processors wait for each other.
    cpus = max((sweep.plan.models[job.model].resources.cpus for job in jobs), default=1)
    os.environ.setdefault("OMP_NUM_THREADS", str(cpus))
    code = 0
    for job in jobs:
        try:
            done = run.run(sweep, job)
            counted = f"{done.answered} answered, {done.skipped} were done"
            print(f"{job.name}: {counted}, {len(done.failures)} failed", flush=True)
            code = FAILED if done.failures else code
        except RulerError as error:
            # Another model may work.
            print(f"{job.name}: {error}", file=sys.stderr, flush=True)
            code = FAILED
    return code


def _serve(given: argparse.Namespace) -> int:
    sweep = Sweep.load(given.plan)
    server = sweep.plan.models[one_of("model", given.model, sweep.plan.models)].server
    if server is None or server.command is None:
        raise ParameterError("model", given.model, "one whose server the plan starts by a command")
    jobs = [job for job in sweep.jobs if job.model == given.model]

    def needed() -> bool | None:
        if all(sweep.is_done(cell) for job in jobs for cell in job.cells):
            return None
        return any(files.holder(sweep.mark(job)) for job in jobs)

    log = sweep.folder / "logs" / f"server-{given.model}.log"
    servers.serve(server.command, sweep.address(given.model), log, server.wait_minutes, needed)
    return 0


def _folder(given: argparse.Namespace) -> int:
    print(folder_of(given.plan))
    return 0


def _status(given: argparse.Namespace) -> int:
    sweep = Sweep.load(given.plan)
    if not given.follow:
        now = status(sweep)
        print(now)
        return FAILED if now.cells["failed"] else 0
    parent = os.getppid()
    # A bar that is drawn again and again makes no sense in a file. It ends with the command that
    # it was started for.
    while sys.stderr.isatty() and os.getppid() == parent:
        now = status(sweep)
        line, *_ = str(now).splitlines()
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        if not now.unfinished:
            print(file=sys.stderr)
            break
        time.sleep(_PAUSE)
    return 0


def _collect(given: argparse.Namespace) -> int:
    sweep = Sweep.load(given.plan)
    done, missing = collect(sweep)
    print(f"{sweep.folder}: scores.csv, cells.csv of {len(done)} cells.")
    print(f"To see them: rulerlib run analysis {sweep.folder}/analysis.ipynb -p runs {sweep.root}")
    for sentence in status(sweep).failures:
        print(sentence, file=sys.stderr)
    if missing:
        print(f"Missing: {listed(missing)}", file=sys.stderr)
    return FAILED if missing else 0


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
    of_run.add_argument("names", nargs="*", metavar="JOB", help="a job")
    of_serve = command("serve", _serve, "Start the server of a model, until its jobs are done.")
    of_serve.add_argument("model", metavar="MODEL", help="what the plan calls the model")
    command("folder", _folder, "Say where a sweep stands.")
    of_status = command("status", _status, "Say what is done, running, failed and left.")
    of_status.add_argument("--follow", action="store_true", help="draw a bar until all is done")
    command("collect", _collect, "Write the tables.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
