"""Jobs of sweeps: they end with the bytes of a run, whatever happens on the way."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time

import helpers_sweep
import pytest
from helpers_sweep import Engine, command, planned, settings, write

from rulerlib import models
from rulerlib.errors import ServerError
from rulerlib.runs import Run
from rulerlib.sweep import run as running
from rulerlib.sweep import servers
from rulerlib.sweep.__main__ import main
from rulerlib.sweep.collect import collect
from rulerlib.sweep.run import run
from rulerlib.sweep.status import status
from rulerlib.sweep.sweep import Sweep


@pytest.fixture(autouse=True)
def quick(instant, monkeypatch):
    monkeypatch.setattr(running, "PAUSE", 0.01)
    monkeypatch.setattr(servers, "PAUSE", 0.05)
    monkeypatch.setattr(Engine, "asked", [])
    monkeypatch.setattr(Engine, "loaded", 0)


def answers(folder):
    """The bytes of all answers and questions of a sweep, by their place."""
    root = folder / "runs"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.jsonl")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What the usual plan ends with, made by runs, which know nothing of sweeps."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "ENGINES", models.ENGINES)
        helpers_sweep.install()
        for seed in (42, 43):
            Run(
                "niah_single_1,vt", "our/one", "instant", length=1024, num_lengths=2,
                num_samples=2, seed=seed, output=str(folder / "runs"),
            ).predict()  # fmt: skip
    return answers(folder)


def test_a_sweep_ends_with_the_bytes_of_runs(tmp_path, whole, capsys):
    plan = write(tmp_path / "plan.yaml", settings(tmp_path))
    assert main(["plan", str(plan)]) == main(["run", str(plan)]) == 0
    assert answers(tmp_path) == whole
    # One for each job, for its first cell.
    assert Engine.loaded == 2
    Engine.asked.clear()
    assert main(["run", str(tmp_path), "one-da-512"]) == 0
    assert (Engine.asked, Engine.loaded) == ([], 2)
    assert "one-da-512: 0 answered, 4 were done, 0 failed" in capsys.readouterr().out
    assert main(["status", str(plan)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("100% |")
    assert "8 done, 0 running, 0 failed, 0 left, of 8" in told


def test_what_a_cell_costs_stands_beside_its_answers(tmp_path):
    """What a notebook has answered is not asked again."""
    slow = {"model": "our/one", "engine": "instant", "engine_options": {"seconds": 0.02}}
    plan = {"models": {"one": slow}, "lengths": [512], "seeds": [42]}
    sweep = planned(tmp_path, **plan)
    first, second = sweep.jobs[0].cells
    Run(
        "vt", "our/one", "instant", length=512, num_samples=2, output=str(sweep.root)
    ).predict()  # fmt: skip
    assert run(sweep, sweep.jobs[0]).answered == 2
    assert (first.task, second.task, sweep.cost(second)["asked"]) == ("niah_single_1", "vt", 0)
    path, cost = sweep.answers(first), sweep.cost(first)
    assert cost["asked"] == cost["answers"] == 2
    assert cost["bytes"] == path.stat().st_size
    assert cost["seconds"]["generating"] >= 0.04
    assert cost["seconds"]["making"] > 0
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    read = [record["others"]["prompt_tokens"] for record in records]
    halves = sum(number // 2 for number in read)
    assert cost["tokens"] == {"prompt": sum(read), "computed": halves, "generated": 6}
    # More samples later: their cost is added.
    more = planned(tmp_path, num_samples=3, **plan)
    run(more, more.jobs[0])
    assert more.cost(first)["asked"] == 3


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path, capsys):
    broken = {"model": "our/one", "engine": "instant", "engine_options": {"fail": "VAR "}}
    plan = write(tmp_path / "plan.yaml", settings(tmp_path, models={"one": broken}))
    main(["plan", str(plan)])
    for times in ("once", "2 times", "3 times"):
        assert main(["run", str(plan)]) == 1
        told = f"one/da/1024/vt failed {times}: ValueError: the engine broke"
        assert told in capsys.readouterr().err
    # One task with both seeds at both lengths; all else is done.
    assert main(["status", str(plan)]) == 1
    told = capsys.readouterr().out
    assert "4 done, 0 running, 4 failed, 0 left, of 8 cells" in told
    log = tmp_path / "logs" / "one-da-1024.log"
    assert f"failed 3 times: ValueError: the engine broke See {log}" in told
    assert main(["collect", str(plan)]) == 1
    assert "Missing: one/da/512/vt: it has no answers." in capsys.readouterr().err
    mended = {**broken, "engine_options": {}}
    write(tmp_path / "plan.yaml", settings(tmp_path, models={"one": mended}))
    assert main(["plan", str(plan)]) == main(["run", str(plan)]) == main(["status", str(plan)]) == 0


def test_what_is_deleted_or_cut_is_not_done(tmp_path, whole):
    sweep = planned(tmp_path)
    for job in sweep.jobs:
        run(sweep, job)
    assert [sweep.mark(job).exists() for job in planned(tmp_path).jobs] == [True, True]
    first, second, *_ = (sweep.answers(cell) for cell in sweep.cells)
    first.unlink()
    os.truncate(second, second.stat().st_size - 5)
    assert [sentence.partition(":")[0] for sentence in collect(sweep)[1]] == [
        "one/da/512/niah_single_1", "one/da/512/niah_single_1+seed=43",
    ]  # fmt: skip
    assert len(status(sweep).cells["left"]) == 2
    # Planned again, the job is not marked as done any more, so that the workflow runs it.
    again = planned(tmp_path)
    assert [again.mark(job).exists() for job in again.jobs] == [False, True]
    run(again, again.jobs[0])
    assert answers(tmp_path) == whole
    assert collect(again)[1] == []


def test_a_model_that_became_another_is_named(tmp_path, monkeypatch):
    sweep = planned(tmp_path)
    made = Engine.__init__

    def other(self, *values, **options):
        made(self, *values, **options)
        self.settings = {**self.settings, "limit": self.limit}

    monkeypatch.setattr(Engine, "__init__", other)
    sweep.plan.models["one"].engine_options["limit"] = 4096
    (failure, *_) = run(sweep, sweep.jobs[0]).failures
    assert "the place of the cell is '" in failure
    assert "our--one+limit=4096+engine=instant/da/512" in failure


def slow(folder, **options):
    """The usual plan, with an engine that takes its time."""
    one = {"model": "our/one", "engine": "instant", "engine_options": options}
    return write(folder / "plan.yaml", settings(folder, models={"one": one}, cells_per_job=2))


def until(holds, seconds=60):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_killed_job_is_taken_over_by_the_one_that_waits(tmp_path, whole):
    hold = tmp_path / "hold"
    hold.touch()
    plan = slow(tmp_path, hold=str(hold))
    main(["plan", str(plan)])
    sweep = Sweep.load(tmp_path)
    name = sweep.jobs[0].name
    first = command("run", str(plan), name)
    until(lambda: list(tmp_path.rglob("*.settings.json")))
    now = status(sweep)
    assert now.running[0].startswith(f"{name} is running: process {first.pid} on ")
    assert len(now.cells["running"]) == 1
    second = command("run", str(plan), name)
    assert "Waiting for job" in second.stdout.readline()
    first.kill()
    first.communicate(timeout=60)
    hold.unlink()
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 0, said
    assert all(sweep.is_done(cell) for cell in sweep.jobs[0].cells)


SERVER = """
    import sys
    sys.path.insert(0, {tests!r})
    from helpers_server import Server
    import helpers_server
    helpers_server.ThreadingHTTPServer.allow_reuse_address = True
    server = Server(lambda prompt, attempt: None, models={{"served": {{"max_model_len": 8192}}}})
    http = helpers_server.ThreadingHTTPServer
    bound = http.__init__
    http.__init__ = lambda self, place, handler: bound(self, (place[0], int(sys.argv[1])), handler)
    with server.running():
        import time
        time.sleep(600)
"""


def server(folder):
    """The command of a server that answers on the port that it is given."""
    program = folder / "server.py"
    tests = os.path.dirname(helpers_sweep.__file__)
    program.write_text(textwrap.dedent(SERVER.format(tests=tests)), "utf-8")
    return f"{sys.executable} {program} {{port}}"


def served(folder, command, wait=0.5, gpus=8):
    """A plan whose model a command serves."""
    options = {"max_model_len": 8192, "tokenizer": "words", "retries": 0}
    entry = {
        "model": "served", "engine": "openai", "engine_options": options,
        "server": {"command": command, "wait_minutes": wait}, "resources": {"gpus": gpus},
    }  # fmt: skip
    return write(folder / "plan.yaml", settings(folder, models={"big": entry}))


def test_one_server_serves_all_lengths_and_is_stopped(tmp_path):
    pytest.importorskip("openai")
    plan = served(tmp_path, server(tmp_path))
    assert main(["plan", str(plan)]) == 0
    sweep = Sweep.load(tmp_path)
    # The GPUs are the server's: jobs that ask it need none.
    gpus = {
        row.split("\t")[0]: row.split("\t")[1]
        for name in ("jobs.tsv", "servers.tsv")
        for row in (tmp_path / name).read_text("utf-8").splitlines()[1:]
    }
    assert gpus == {"big-da-512": "0", "big-da-1024": "0", "big": "8"}
    serving = command("serve", str(plan), "big")
    try:
        assert main(["run", str(plan)]) == 0
        said, _ = serving.communicate(timeout=60)
        assert serving.returncode == 0, said
    finally:
        serving.kill()
    assert not sweep.address("big").exists()
    assert not status(sweep).unfinished
    # No address, which may be private, stands beside the answers.
    written = [path.read_text("utf-8") for path in (tmp_path / "runs").rglob("*.json")]
    assert not any("http://" in text for text in written)


def test_a_server_that_does_not_come_is_one_sentence(tmp_path, capsys):
    pytest.importorskip("openai")
    plan = served(tmp_path, "false {port}", wait=0.001)
    main(["plan", str(plan)])
    assert main(["serve", str(plan), "big"]) == 2
    log = tmp_path / "logs" / "server-big.log"
    assert f"The server ended by itself with status 1: see {log}." in capsys.readouterr().err
    assert main(["run", str(plan), "big-da-512"]) == 1
    assert "The server of 'big' was not there after 0.001 minutes" in capsys.readouterr().err
    assert "failed once: The server of 'big'" in str(status(Sweep.load(tmp_path)))
    assert main(["serve", str(plan), "bigg"]) == 2
    assert "(did you mean 'big'?)" in capsys.readouterr().err


def test_a_server_is_stopped_with_all_that_it_started(tmp_path):
    place, log = tmp_path / "big.json", tmp_path / "log"
    command_ = "sh -c 'sleep 300 & echo $!; sleep 300; : {port}'"
    with pytest.raises(ServerError, match=r"^The server did not answer within 0.005 minutes: see"):
        servers.serve(command_, place, log, 0.005, lambda: False)
    child = int(log.read_text("utf-8"))

    def gone():
        # Nobody may have taken its end to note: a process that is dead is as good as gone.
        try:
            with open(f"/proc/{child}/stat", encoding="utf-8") as file:
                return file.read().rpartition(") ")[2][0] == "Z"
        except OSError:
            return True

    until(gone)
    with pytest.raises(ServerError, match="cannot be started"):
        servers.serve("no-such-command {port}", place, log, 1, lambda: None)
