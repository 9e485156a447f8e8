"""A memory from outside the package, by its door: ``system: package.module:Memory`` in a preset."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

pytest.importorskip("yaml")
pytest.importorskip("pandas")

from helpers_memory import matrix, metrics, rows, taught

from conftest import ROOT
from rulerlib import packages
from rulerlib.errors import RunMismatchError
from rulerlib.memory import presets, teaching, work

EXAMPLE = ROOT / "tests" / "outside" / "memory.py"
MEMORY = "outside.memory:Memory"

PRESET = """
system: {system}
settings: {settings}
system_prompt: "Answer with the exact shortest span from the prompt. No explanations."
"""


def preset(folder: Path, system: str = MEMORY, settings: str = "{k: 5}") -> str:
    """A file of a preset with a memory from outside."""
    path = folder / "mine.yaml"
    path.write_text(PRESET.format(system=system, settings=settings), "utf-8")
    return str(path)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module with a memory, and returns its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(source: str, name: str = "mine") -> str:
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
        sys.modules.pop(name, None)
        return f"{name}:Memory"

    yield write
    sys.modules.pop("mine", None)


def test_the_example_is_short_and_remembers(student, tmp_path):
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 30
    names = [preset(tmp_path), "rag", "oracle"]
    works = matrix(tmp_path / "runs", preset_names=names, suites=["episodic_cross"], sizes=[6])
    assert not taught(works)
    mine = works[0]
    assert metrics(mine)["em_norm"] >= 0.5 * metrics(works[2])["em_norm"] > 0
    assert all(row["recall_at_5"] for row in rows(mine) if row["answerable"] == "1")
    told = json.loads(mine.file(work.TEACHING).read_text("utf-8"))
    # A folder for each episode, and a line for each text of its three sessions.
    files = sorted(mine.file(work.STORE).rglob("lines.txt"))
    assert len(files) == told["stored"] == 6
    assert sum(len(file.read_text("utf-8").splitlines()) for file in files) == told["facts"] == 120


def bench(folder: Path, *words: str, **more: str) -> str:
    """What the command prints, in a process of its own and in a folder."""
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *sys.path)))}
    done = subprocess.run(
        [sys.executable, "-m", "rulerlib.memory.bench", *words], cwd=folder, timeout=120,
        env={**os.environ, **paths, **more}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_settings_and_its_source_are_part_of_its_name(student, tmp_path, monkeypatch):
    path = preset(tmp_path)
    first = presets.load(path)
    assert first.to_dict()["source"] == packages.source_hash(MEMORY)
    assert first.to_dict()["settings"] == {"k": 5, "shortest": 1}
    changed = presets.load(path, {"shortest": 4})
    assert changed.short == f"{first.short}-shortest_4"
    (job,) = matrix(tmp_path / "runs", preset_names=[path])
    taught([job], ask=False)
    monkeypatch.setattr(packages, "source_hash", lambda name: "0123")
    assert presets.load(path).short != first.short
    # And where the short hashes are the same by chance, what was taught says it.
    with pytest.raises(RunMismatchError, match=r"made with source = .*, not '0123'"):
        teaching.is_taught(job)


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


def test_a_memory_is_named_on_the_command_line(tmp_path):
    shutil.copyfile(EXAMPLE, tmp_path / "my_memory.py")
    words = ["run", "--system", "my_memory:Memory", "--suites", "semantic", "--sizes", "3",
             "--seeds", "7", "--language", "en", "--model", "reference", "--engine", "reference",
             "--set", "k=3"]  # fmt: skip
    printed = bench(tmp_path, *words, PYTHONSAFEPATH="1")  # as an installed command has it
    presets_told = [line.split()[0] for line in printed.splitlines()[1:5]]
    assert [name.partition("-")[0] for name in presets_told] == [
        "span_short", "rag", "oracle", "my_memory",
    ]  # fmt: skip
    report = tmp_path / "runs" / "memory" / "report.html"
    assert printed.endswith("report.html\n")
    links = re.findall("href='([^']+)'", report.read_text("utf-8"))
    assert len(links) == 2 * 4
    assert all((report.parent / urllib.parse.unquote(link)).is_file() for link in links)


CHEATS = [
    ("return []", r"retrieval.hits == 0: mine-\w+ recalled nothing for 8 questions"),
    ("return ['I know all that.']", "recalled the same texts for all 8 questions"),
    (
        "self.file.open('a').write(question); return texts[:k]",
        r"mine-\w+ changed '\S+texts' in its store while it was asked",
    ),
    (
        "from rulerlib.memory.suites import Recipe\n"
        "        golds = {probe.text: probe.golds[0] for item in Recipe('episodic', 8, 7, 'da')\n"
        "                 for probe in item.episode.probes}\n"
        "        return [f'It is {golds[question]}.']",
        "recalled an answer that was never taught, and nothing beside it, for 8 of 8 questions",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("recall", "said"), CHEATS, ids=[said[:20] for _, said in CHEATS])
def test_a_memory_that_is_dead_or_cheats_is_stopped_before_a_model_is_asked(
    student, tmp_path, module, recall, said
):
    name = module(f"{KEEPS}        {recall}\n")
    (job,) = matrix(tmp_path / "runs", preset_names=[preset(tmp_path, name)], sizes=[8])
    (sentence,) = taught([job])
    assert re.search(said, sentence)
    assert not student.asked
    assert not job.file(work.METRICS).exists()


TEACH, RECALL = "def teach(self, texts): pass", "def recall(self, question, k): return []"


FAILS = [
    ("def teach(self, texts): raise KeyError('x')", RECALL, "teach failed (KeyError: 'x')"),
    (TEACH, RECALL, "The store of mine-"),
]  # fmt: skip


@pytest.mark.parametrize(("teach", "recall", "said"), FAILS, ids=[said for *_, said in FAILS])
def test_what_goes_wrong_in_it_stops_it_with_a_sentence(
    student, tmp_path, module, teach, recall, said
):
    init = "def __init__(self, folder): self.folder = folder"
    name = module(f"class Memory:\n    {init}\n    {teach}\n    {recall}\n")
    works = matrix(tmp_path / "runs", preset_names=[preset(tmp_path, name), "core"])
    (sentence,) = taught(works)
    assert said in sentence
    assert works[1].file(work.METRICS).exists(), "the others go on"
