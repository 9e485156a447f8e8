"""A memory from outside the package, named ``package.module:Memory``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from helpers_memory import finished, matrix, metrics, rows

from conftest import ROOT
from rulerlib import plugins
from rulerlib.memory import presets, work

EXAMPLE = ROOT / "tests" / "outside" / "memory.py"
MEMORY = "outside.memory:Memory"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module with a memory, and return its name."""
    code = tmp_path / "code"
    code.mkdir()
    monkeypatch.syspath_prepend(str(code))

    def write(source: str) -> str:
        (code / "mine.py").write_text(source, "utf-8")
        return "mine:Memory"

    yield write
    sys.modules.pop("mine", None)


def test_the_example_is_short_and_remembers(student, tmp_path):
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 30
    names = [MEMORY, "rag", "oracle"]
    works = matrix(tmp_path / "runs", presets=names, suites=["episodic_cross"], sizes=[6])
    assert not finished(works)
    mine = works[0]
    assert metrics(mine)["em"] >= 0.5 * metrics(works[2])["em"] > 0
    assert all(row["recall_at_5"] for row in rows(mine) if row["answerable"] == "1")
    # A folder for each episode, and a line for each text of its three sessions.
    files = sorted((mine.folder / work.STORE).rglob("lines.txt"))
    assert len(files) == 6
    assert sum(len(file.read_text("utf-8").splitlines()) for file in files) == 120


def test_a_memory_is_named_on_the_command_line(tmp_path):
    shutil.copyfile(EXAMPLE, tmp_path / "my_memory.py")
    # PYTHONSAFEPATH, as for an installed command.
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *sys.path))), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "rulerlib.memory.bench", "--system", "my_memory:Memory",
         "--suites", "semantic", "--sizes", "3", "--seeds", "7", "--language", "en",
         "--model", "reference", "--engine", "reference", "--set", "k=3"],
        cwd=tmp_path, timeout=120, env={**os.environ, **paths}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = "\n".join(done.stdout.splitlines()[1:6])
    names = re.findall(r"^[\d.]+ +3  ([\w-]+),", table, re.MULTILINE)
    assert names[:4] == ["span_short", "random-k_3", "rag-k_3", "oracle"]
    assert re.fullmatch(r"my_memory-\w{4}-k_3", names[4])


def test_settings_are_part_of_the_name():
    first = presets.load(MEMORY)
    assert first.to_dict()["source"] == plugins.source_hash(MEMORY)
    assert first.to_dict()["settings"] == {"k": 5, "shortest": 1}
    assert presets.load(MEMORY, {"shortest": 4}).short == f"{first.short}-shortest_4"


KEEPS = (
    "import json\n"
    "class Memory:\n"
    "    def __init__(self, folder): self.file = folder / 'texts'\n"
    "    def teach(self, texts):\n"
    "        with self.file.open('a') as file:\n"
    "            for text in texts: print(text, file=file)\n"
    "    def recall(self, question, k):\n"
    "        texts = self.file.read_text().splitlines()\n"
)


# --- Memories that cheat ------------------------------------------------------------------------


def test_everything_in_one_text_does_not_fit(student, tmp_path, module):
    name = module(f"{KEEPS}        return [' '.join(texts)]\n")
    (job,) = matrix(tmp_path / "runs", presets=[name], sizes=[4])
    assert not finished([job])
    names = ("recall", "in_prompt", "recall_at_5", "em")
    measured = [float(row[name]) for row in rows(job) if row["needed"] != "0" for name in names]
    assert measured == [1, 0, 0, 0] * (len(measured) // 4), "recalled, but no room"


SNOOPS = """
import gc, inspect, json, os, pathlib, sys
WORDS = []
for frame in inspect.stack():
    WORDS += [repr(value) for value in frame.frame.f_locals.values()]
def look():
    names = {type(each).__name__ for each in gc.get_objects()}
    here = [str(path) for path in pathlib.Path.cwd().rglob("*")]
    frames = [repr(each.frame.f_locals) for each in inspect.stack()]
    return json.dumps([sorted(names), here, frames, sys.argv, os.getcwd()])
class Memory:
    def __init__(self, folder): self.folder = folder
    def teach(self, texts):
        with (self.folder / 'texts').open('a') as file:
            for text in texts: print(text, file=file)
        (self.folder / 'teaching').write_text(look())
    def recall(self, question, k):
        pathlib.Path(os.environ['SPY'], question.replace(' ', '_')).write_text(
            json.dumps([look(), str(self.folder)]))
        return self.folder.joinpath('texts').read_text().splitlines()[:k]
"""


def test_a_memory_process_holds_no_answers(student, tmp_path, module, monkeypatch):
    """Its frames, its objects, its arguments and its folders hold texts and questions only."""
    spy = tmp_path / "spy"
    spy.mkdir()
    monkeypatch.setenv("SPY", str(spy))
    name = module(SNOOPS)
    (job,) = matrix(tmp_path / "runs", presets=[name], sizes=[3],
                    suites=["spatial"])  # fmt: skip
    assert not finished([job])
    teaching = [path.read_text() for path in (job.folder / work.STORE).rglob("teaching")]
    asking = [json.loads(path.read_text()) for path in spy.iterdir()]
    assert (len(teaching), len(asking)) == (3, 3)
    for text in (*teaching, *(text for text, _ in asking)):
        kinds, here, frames, arguments, folder = json.loads(text)
        assert not {"Probe", "Episode", "Recipe", "Fact", "Work", "Sample"} & {*kinds}
        assert here == []
        assert arguments == [""]
        assert not any(str(tmp_path / "runs") in frame for frame in frames)
        assert Path(folder).name.startswith("rulerlib-")
    assert all("runs" not in Path(folder).parts for _, folder in asking), "no way to the questions"
    questions = [probe.text for episode in job.recipe for probe in episode.probes]
    assert not any(question in text for question in questions for text in teaching)


# --- Guards --------------------------------------------------------------------------------------

CHEATS = [
    ("return []", r"retrieval.hits == 0: mine-\w+ recalled nothing for 8 questions"),
    ("return ['I know all that.']", "recalled the same texts for all 8 questions"),
    (
        "self.file.open('a').write(question); return texts[:k]",
        r"mine-\w+ changed its store while it was asked",
    ),
    (
        "from rulerlib.memory.suites import Recipe\n"
        "        golds = {probe.text: probe.golds[0] for each in Recipe('episodic', 8, 7, 'da')\n"
        "                 for probe in each.probes}\n"
        "        return [f'It is {golds[question]}.']",
        "recalled an answer that was never taught, and nothing else, for 8 of 8 questions",
    ),
    ("raise KeyError('x')", r"mine:Memory: recall failed \(KeyError: 'x'\)"),
    ("return 'text'", "mine:Memory: recall did not return a list of at most 5 texts"),
    ("import os; os._exit(3)", r"mine:Memory: its process ended"),
]  # fmt: skip


@pytest.mark.parametrize(("recall", "said"), CHEATS, ids=[said[:20] for _, said in CHEATS])
def test_a_memory_that_is_dead_or_cheats_is_stopped_before_a_model_is_asked(
    student, tmp_path, module, recall, said
):
    name = module(f"{KEEPS}        {recall}\n")
    job, other = matrix(tmp_path / "runs", presets=[name, "core"], sizes=[8])
    (sentence,) = finished([job])
    assert re.search(said, sentence)
    assert not student.asked
    assert not finished([other]), "the others go on"
    assert [(each.folder / work.METRICS).exists() for each in (job, other)] == [False, True]
