"""Plans of sweeps: what they ask, what is refused, how they become jobs and may be edited."""

from __future__ import annotations

import csv
import re

import helpers_sweep
import pytest
from helpers_sweep import planned, settings, write

from rulerlib import files
from rulerlib.errors import DataError, ParameterError, RulerError
from rulerlib.runs import Run
from rulerlib.sweep.__main__ import main
from rulerlib.sweep.plan import Plan, outline
from rulerlib.sweep.run import run
from rulerlib.sweep.sweep import Sweep

ROOT = helpers_sweep.ROOT

pytestmark = pytest.mark.usefixtures("instant")


def outlined(folder, **changed):
    """A plan, its cells, and what is left out."""
    plan = Plan.from_settings(settings(folder, **changed))
    return plan, *outline(plan)


def begun(folder, **changed):
    """A sweep whose first job has answers."""
    sweep = planned(folder, **changed)
    run(sweep, sweep.jobs[0])
    return sweep


def test_the_cells_are_those_of_runs(tmp_path):
    """Two ways to the same files: a notebook finds the answers of a sweep."""
    two = {"two": {"model": "our/two", "engine": "instant", "format": {"answer_prefix": "none"}}}
    one = settings(tmp_path)["models"]
    tasks = ["niah_single_1", {"task": "vt", "num_hops": 2}]
    plan, cells, _ = outlined(tmp_path, models=one | two, languages=["da", "en"], tasks=tasks)
    ways = set()
    for entry in plan.models.values():
        for language in plan.languages:
            for seed in plan.seeds:
                for name, knobs in plan.task_knobs:
                    same = Run(
                        name, entry.model, "instant", language=language, length=1024, num_lengths=2,
                        seed=seed, format=plan.format_of(entry), knobs=knobs,
                    )  # fmt: skip
                    ways |= {cell.answers("").as_posix() for cell in same.cells}
    assert {f"{cell.folder}/pred/{cell.label}.jsonl" for cell in cells} == ways
    assert len(cells) == len(ways) == len({cell.name for cell in cells})


def test_what_does_not_fit_is_left_out_and_named(tmp_path):
    short = {"model": "our/short", "engine": "instant", "engine_options": {"limit": 600}}
    both = {**settings(tmp_path)["models"], "short": short}
    _, cells, left_out = outlined(tmp_path, models=both, tasks="niah_single_1,cwe")
    assert "short at 1024: it takes at most 600 tokens" in left_out
    (left,) = [sentence for sentence in left_out if sentence.startswith("cwe at 512 in da")]
    # As the dataset itself says, which makes one for each cell.
    needed = int(re.search(r"at least (\d+)$", left)[1])
    with pytest.raises(ParameterError, match=f"at least {needed} for cwe"):
        Run("cwe", "our/one", "instant", length=512).check()
    assert {cell.length for cell in cells if cell.model == "short"} == {512}
    assert {cell.length for cell in cells if cell.task == "cwe"} == {1024}


def test_a_plan_is_the_same_when_it_was_written(tmp_path):
    resources = {"gpus": 2, "hours": 2.5, "partition": "gpu"}
    models_ = {"one": {"model": "our/one", "engine": "instant", "resources": resources}}
    sweep = planned(tmp_path, models=models_, format={"answer_prefix": "user"})
    again = Sweep.load(tmp_path)
    assert (again.plan, again.jobs) == (sweep.plan, sweep.jobs)


PLANS = sorted((ROOT / "params" / "sweeps").glob("*.yaml"))
PAGE = ROOT / "book" / "cluster.md"


@pytest.mark.parametrize("file", PLANS, ids=lambda file: file.stem)
def test_a_plan_of_the_project_says_how_it_is_run(file):
    assert f"make sweep PLAN={file.relative_to(ROOT)}" in file.read_text("utf-8")
    assert Plan.from_file(file).task_knobs


def test_the_plans_of_the_page_can_be_read(tmp_path, monkeypatch):
    yaml = pytest.importorskip("yaml")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "base").mkdir(parents=True)
    (tmp_path / "models" / "base" / "config.json").write_text("{}", "utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    whole, served = (yaml.safe_load(block) for block in blocks)
    plan = Plan.from_settings(whole)
    assert plan.models["small"].resources.hours == 12
    assert plan.format_of(plan.models["base"]).chat is False
    entries = Plan.from_settings({**whole, **served}).models
    assert entries["started"].server.command.startswith("vllm serve")
    assert entries["served"].options()["base_url"] == "http://node7:8000/v1"


ONE = {"model": "our/one", "engine": "instant"}

BAD = [
    ({"models": {}}, "models is {}, but must be at least one model by name."),
    ({"model": "lille"}, "a name in the plan is 'model', but must be one of models, lang"),
    ({"models": {"one": {"model": "no-such-model"}}},
     "models.one.model is 'no-such-model', but must be 'lille', 'smollm2'"),
    ({"models": {"one": {**ONE, "gpus": 1}}}, "a name in models.one is 'gpus', but must be one of"),
    ({"models": {"one": {**ONE, "resources": {"gpu": 1}}}}, "(did you mean 'gpus'?)"),
    ({"models": {"one": {**ONE, "resources": {"hours": {4096: 1}}}}},
     "models.one.resources.hours is {4096: 1}, but must be a number above 0"),
    ({"models": {"one": {**ONE, "engine": "instent"}}}, "(did you mean 'instant'?)"),
    ({"models": {"one": {**ONE, "engine_options": {"seconds": 0, "limt": 9}}}},
     "models.one.engine option is 'limt', but must be one of limit"),
    ({"models": {"one": {**ONE, "engine_options": {"api_key": "x"}}}}, "set OPENAI_API_KEY"),
    ({"models": {"One!": ONE}}, "models.One! is 'One!', but must be a short name of a-z"),
    ({"models": {"one": ONE, "two": ONE}}, "models is 'two', but must be another model than 'one'"),
    ({"models": {"one": ONE, "two": {**ONE, "engine_options": {"limit": 9000}}}},
     "models is 'two', but must be another model than 'one', whose answers would stand in the"),
    ({"models": {"one": {**ONE, "server": {"url": "http://x/v1"}}}}, "but must be 'openai', for"),
    ({"models": {"one": {**ONE, "engine": "openai", "server": {"command": "serve"}}}},
     "a command that names its port as {port}"),
    ({"models": {"one": {**ONE, "engine": "openai", "server": {"command": "x {port}"}}}},
     "models.one.max_model_len is None, but must be given, because the server is not there yet"),
    ({"languages": ["da", "xx"]}, "'xx'"),
    ({"languages": ""}, "languages is '', but must be one or several, with commas between them."),
    ({"lengths": [512, 512]}, "lengths is [512, 512], but must be a list without repetition."),
    ({"lengths": [512, 9000]},
     "lengths is 9000, but must be one that a model takes, at most: one 8192."),
    ({"lengths": ["4096"]}, "lengths is '4096', but must be a whole number, at least 1."),
    ({"tasks": "niah_singel_1"}, "(did you mean 'niah_single_1'?)"),
    ({"tasks": ["vt", "vt"]}, "tasks is 'vt', but must be given once."),
    ({"tasks": [{"task": "vt", "num_hop": 2}]}, "knob is 'num_hop', but must be one of"),
    ({"tasks": [{"num_hops": 2}]}, "but must be given with 'task'."),
    ({"tasks": "qa_2", "lengths": [512]}, "tasks is 'qa_2', but must be one whose prompts fit"),
    ({"seeds": []}, "seeds is [], but must be one or several, with commas between"),
    ({"num_samples": 0}, "num_samples is 0, but must be a whole number, at least 1."),
    ({"format": {"chatt": True}}, "a name in format is 'chatt', but must be one of chat"),
    ({"question_language": "xx"}, "question_language is 'xx', but must be one of"),
    ({"tasks": "qa_1", "question_language": "en"},
     "question_language is 'en', but must be None for qa_1"),
    ({"decoding": {"temperature": -1}}, "temperature is -1, but must be a number from 0"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "said"), BAD, ids=[said[:40] for _, said in BAD])
def test_a_bad_plan_is_one_sentence(tmp_path, changed, said):
    with pytest.raises(RulerError) as error:
        outlined(tmp_path / "out", **changed)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "cannot be read"), ("[1, 2]", "not a plan"), ("a: [", "cannot be read"),
     ("1: 2", "not a plan"), ("output: x", "models is None, but must be given.")],
)  # fmt: skip
def test_a_file_that_is_no_plan_is_named(tmp_path, text, said, capsys):
    path = tmp_path / "plan.yaml"
    if text is not None:
        path.write_text(text, "utf-8")
    assert main(["plan", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_a_disk_without_room_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "free", lambda folder: 1000)
    with pytest.raises(ParameterError, match=r"^num_samples is 2, but must be fewer: they need"):
        outlined(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_sweep_that_was_not_planned_is_named(tmp_path, capsys):
    plan = write(tmp_path / "plan.yaml", settings(tmp_path / "out"))
    assert main(["status", str(plan)]) == 2
    assert "holds no sweep.json: run `rulerlib sweep plan`" in capsys.readouterr().err
    (tmp_path / "sweep.json").write_text('{"plans": {}}', "utf-8")
    with pytest.raises(DataError, match="damaged"):
        Sweep.load(tmp_path)


def test_texts_are_found_from_the_folder_of_a_job(tmp_path, monkeypatch):
    """And a task that reads none is asked beside one that does."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.txt").write_text("Haven er stor, og solen skinner i dag. " * 60, "utf-8")
    sweep = planned(tmp_path / "out", texts="own.txt", tasks="niah_single_2,vt")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = Sweep.load(sweep.folder)
    (job,) = (job for job in again.jobs if job.name == "one-da-1024")
    own = [cell.label.startswith("niah_single_2+") for cell in job.cells]
    assert own == [True, True, False, False]
    assert not run(again, job).failures
    (question, *_) = [
        path.read_text("utf-8") for path in again.root.rglob("1024/data/niah_single_2*/*.jsonl")
    ]
    assert "Haven er stor, og solen skinner" in question


def test_a_job_asks_for_what_its_model_needs(tmp_path):
    resources = {"gpus": 1, "cpus": 4, "memory_gb": 16, "hours": 1.5}
    planned(tmp_path, models={"one": {**ONE, "resources": resources}}, cells_per_job=3)
    with (tmp_path / "jobs.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["name"] for row in rows] == ["one-da-512", "one-da-512-2", "one-da-1024",
                                            "one-da-1024-2"]  # fmt: skip
    assert rows[0] == {
        "name": "one-da-512", "gpus": "1", "cpus": "4", "memory_mb": "16000", "minutes": "90",
        "partition": "",
    }  # fmt: skip


def test_what_is_new_is_added_and_what_is_gone_is_left(tmp_path, capsys):
    sweep = begun(tmp_path)
    kept = {path: path.read_bytes() for path in sweep.root.rglob("*.jsonl")}
    plan = write(tmp_path / "plan.yaml", settings(tmp_path, seeds=[43, 44], lengths=[512, 2048]))
    assert main(["plan", str(plan)]) == 0
    said = capsys.readouterr().out
    gone = "one/da/512/niah_single_1, one/da/512/vt, one/da/1024/niah_single_1, "
    assert f"No longer planned, and left as they are: {gone}" in said
    again = Sweep.load(tmp_path)
    names = {job.name: [cell.label for cell in job.cells] for job in again.jobs}
    labels = [f"{task}+seed={seed}" for task in ("niah_single_1", "vt") for seed in (43, 44)]
    assert names == {"one-da-512": labels, "one-da-2048": labels}
    assert [again.is_done(cell) for cell in again.jobs[0].cells] == [True, False, True, False]
    assert all(path.read_bytes() == data for path, data in kept.items())


def test_what_changed_in_how_a_model_answers_is_new_and_the_old_is_left(tmp_path, capsys):
    sweep = begun(tmp_path)
    kept = {path: path.read_bytes() for path in sweep.root.rglob("*.jsonl")}
    changed = settings(tmp_path, format={"answer_prefix": "none"})
    assert main(["plan", str(write(tmp_path / "plan.yaml", changed))]) == 0
    again = Sweep.load(tmp_path)
    assert not any(again.is_done(cell) for cell in again.cells)
    assert not {*map(again.answers, again.cells)} & {*map(sweep.answers, sweep.cells)}
    assert all(path.read_bytes() == data for path, data in kept.items())
    # What it needs of a machine may change.
    planned(tmp_path, models={"one": {**ONE, "resources": {"gpus": 4}}})
    assert Sweep.load(tmp_path).jobs[0].cells == sweep.jobs[0].cells


def test_more_samples_begin_a_done_job_again(tmp_path):
    sweep = begun(tmp_path)
    planned(tmp_path)
    assert sweep.mark(sweep.jobs[0]).exists()
    grown = planned(tmp_path, num_samples=3)
    assert not sweep.mark(sweep.jobs[0]).exists()
    assert run(grown, grown.jobs[0]).answered == len(grown.jobs[0].cells)
    assert all(grown.is_done(cell) for cell in grown.jobs[0].cells)
