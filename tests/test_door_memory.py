"""A memory from outside the package, by its door: ``system: package.module:Memory`` in a preset."""

from __future__ import annotations

import http.server
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path
from typing import ClassVar

import pytest

pytest.importorskip("yaml")
pytest.importorskip("pandas")

from helpers_memory import kept, matrix, metrics, rows, taught

from conftest import ROOT
from rulerlib import packages
from rulerlib.errors import ParameterError, RunMismatchError
from rulerlib.memory import presets, teaching, work
from rulerlib.memory.page import write

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


def test_it_works_in_every_process(tmp_path):
    """The command itself, in the folder of the files, with an engine from outside too."""
    for name in ("memory.py", "engine.py"):
        shutil.copyfile(EXAMPLE.with_name(name), tmp_path / f"my_{name}")
    settings = "{k: 3, shortest: 2}\nuse_chat_template: false"
    path = Path(preset(tmp_path, "my_memory:Memory", settings))
    text = path.read_text("utf-8").replace("system_prompt", "#")
    path.write_text(text, "utf-8")
    words = ["--suites", "spatial", "--presets", path.name, "--sizes", "2", "--seeds", "7",
             "--model", "last", "--engine", "my_engine:Engine", "--engine-option",
             "tokenizer=words", "--root", "runs", "--length", "900"]  # fmt: skip
    before = None
    for _ in range(2):
        assert bench(tmp_path, *words).splitlines()[1].startswith("mine-")
        # The second time all is there.
        assert before in (None, kept(tmp_path / "runs"))
        before = kept(tmp_path / "runs")


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
    with pytest.raises(RunMismatchError, match=r"made with source = .*, and now source = '0123'"):
        teaching.is_taught(job)


def test_texts_have_times_and_marks_and_nothing_else(student, tmp_path, module):
    source = (
        "class Memory:\n"
        "    def __init__(self, folder): self.folder = folder\n"
        "    def teach(self, texts):\n"
        "        (self.folder / 'seen').write_text(repr([vars(text) for text in texts]))\n"
        "    def recall(self, question, k): return [f'What I know of: {question}']\n"
        "    def stats(self): return {'lessons': 2, 'name': 'x'}\n"
    )
    (job,) = matrix(tmp_path / "runs", preset_names=[preset(tmp_path, module(source))], sizes=[2])
    assert not taught([job])
    for seen in job.file(work.STORE).rglob("seen"):
        marks = {"number", "day", "session", "rewarded", "pinned", "surprise"}
        assert all({*text} == marks for text in eval(seen.read_text("utf-8")))
    # A text of its own stands in the prompt, and is none of the facts.
    assert {(row["recalled"], row["recall_at_10"], row["in_prompt"]) for row in rows(job)} == {
        ("1", "0", "0")
    }
    telemetry = json.loads(job.file(work.TELEMETRY).read_text("utf-8"))
    assert "stored" not in telemetry, "it does not say how many texts it keeps"
    assert (telemetry["requests"], telemetry["hits"], telemetry["lessons"]) == (2, 2, 4)
    assert "name" not in telemetry


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


def test_a_fact_in_other_words_is_delivered(student, tmp_path, module):
    """What the graph of relations finds is told in words that no grammar reads."""
    works = matrix(
        tmp_path / "runs", suites=["semantic", "episodic"], sizes=[8], languages=["en"],
        preset_names=["memory/sgc_rss", preset(tmp_path, module(
            "from rulerlib.memory.relation_graph import RelationGraph, Settings\n"
            "from rulerlib import languages\n"
            "class Memory:\n"
            "    def __init__(self, folder):\n"
            "        english, settings = languages.load('en'), Settings()\n"
            "        self.graph = RelationGraph(folder, settings, english)\n"
            "    def teach(self, texts): self.graph.teach('', texts)\n"
            "    def close(self): self.graph.close()\n"
            "    def recall(self, question, k):\n"
            "        read = [self.graph._reader.fact(one.text).values.values()\n"
            "                for one in self.graph.recall('', question)]\n"
            "        return [f\"As for {', '.join(each)}: so it is.\" for each in read]\n"
        ))],
    )  # fmt: skip
    assert not taught(works)
    for theirs, ours in itertools.pairwise(works):
        if theirs.recipe is ours.recipe:
            delivered = [[row["in_prompt"] for row in rows(job)] for job in (theirs, ours)]
            assert delivered[0] == delivered[1] == ["1"] * 8
            assert {row["disagree"] for row in rows(ours)} == {""}, "it claims nothing"


# The package of each adapter, and the least share of needed facts among the first five texts.
ADAPTERS = {"langgraph_memory": ("langgraph", 0.9), "mem0_memory": ("mem0", 0.9)}


@pytest.mark.parametrize("name", ADAPTERS)
def test_memories_of_others_are_taught_and_asked(student, tmp_path, monkeypatch, name):
    monkeypatch.syspath_prepend(ROOT / "book" / "adapters")
    package, least = ADAPTERS[name]
    # Not by importing it: the adapter says first that nothing is to be sent anywhere.
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    works = matrix(tmp_path / "runs", preset_names=[f"{name}:Memory", "rag"], sizes=[8],
                   languages=["en"])  # fmt: skip
    assert not taught(works)
    for job in works:
        recalls = [float(row["recall_at_5"]) for row in rows(job)]
        assert sum(recalls) >= least * len(recalls)


class Shelf(http.server.BaseHTTPRequestHandler):
    """The three routes of a memory behind an address."""

    collections: ClassVar[dict[str, list[dict[str, object]]]] = {}

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = self.collections.setdefault(given["collection"], [])
        told = {}
        if self.path == "/teach":
            texts += given["texts"]
        elif self.path == "/recall":
            words = {*given["question"].split()}
            best = sorted(texts, key=lambda text: -len(words & {*text["text"].split()}))
            told = {"texts": [text["text"] for text in best[: given["k"]]]}
        else:
            told = {"stored": len(texts)}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        """Say nothing."""


def test_a_memory_behind_an_address(student, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "adapters")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shelf)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        (job,) = matrix(
            tmp_path / "runs", preset_names=["http_memory:Memory"], sizes=[6],
            suites=["episodic_cross"], languages=["en"],
            changes={"url": f"http://127.0.0.1:{server.server_port}/"},
        )  # fmt: skip
        assert not taught([job])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert sorted(map(len, Shelf.collections.values())) == [20] * 6
    assert {text["session"] for texts in Shelf.collections.values() for text in texts} == {0, 1, 2}
    recalls = [float(row["recall_at_5"]) for row in rows(job) if row["answerable"] == "1"]
    assert sum(recalls) > 0.5 * len(recalls)
    assert json.loads(job.file(work.TELEMETRY).read_text("utf-8"))["stored"] == 120


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
    # Markdown, as a reader of it shows it, says the same to the letter, whatever marks stand in it.
    bs4, markdown_it = map(pytest.importorskip, ("bs4", "markdown_it"))
    sentence = "A | <b> *c* `d` __e__ &amp; span_short"
    folders = sorted({(report.parent / urllib.parse.unquote(link)).parent for link in links})
    write(report, folders, [sentence])
    page, marked = (report.with_suffix(end).read_text("utf-8") for end in (".html", ".md"))
    shown = markdown_it.MarkdownIt("gfm-like", {"linkify": False}).render(marked)
    texts, again = (
        [*bs4.BeautifulSoup(each, "html.parser").stripped_strings]
        for each in (page.partition("</title>")[2], shown)
    )
    assert texts == again
    assert {sentence, "Scores", "What was delivered", "What was kept", "Each question"} < {*texts}


CHEATS = [
    ("return []", r"retrieval.hits == 0: mine-\w+ recalled nothing for 8 questions"),
    ("return ['I know all that.']", "recalled the same texts for all 8 questions"),
    (
        "self.file.open('a').write(question); return texts[:k]",
        r"mine-\w+ changed '\S+texts' in its store while it was asked",
    ),
    (
        "(self.file.parent / 'asked').write_text(question); return texts[:k]",
        r"mine-\w+ changed '\S+asked' in its store while it was asked",
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


def test_a_memory_may_choose_at_random_what_it_recalls(student, tmp_path, module):
    source = f"import random\n{KEEPS}        return random.sample(texts, k)\n"
    path = preset(tmp_path, module(source), "{k: 2}")
    (job,) = matrix(tmp_path / "runs", preset_names=[path], sizes=[8])
    assert not taught([job])
    assert job.file(work.METRICS).exists()


TEACH, RECALL = "def teach(self, texts): pass", "def recall(self, question, k): return []"

WRONG = [
    ("", "mine has no Memory"),
    ("raise OSError('gone')", r"can be imported from here \(OSError: gone\)"),
    ("def Memory(): pass", "recall(question, k), not function"),
    (f"class Memory:\n    {TEACH}", "it has no recall"),
    (f"class Memory:\n    {TEACH}\n    def recall(self, question): pass", "recall: too many pos"),
    (f"class Memory:\n    def teach(self): pass\n    {RECALL}", "teach: too many positional"),
    (f"class Memory:\n    {TEACH}\n    {RECALL}\n    close = 3", "it has no close"),
    (f"class Memory:\n    {TEACH}\n    {RECALL}", "Memory: too many positional arguments"),
    (
        f"class Memory:\n    {TEACH}\n    {RECALL}\n    def __init__(self, folder, place): pass",
        "Memory: missing a required argument: 'place'",
    ),
    (
        f"class Memory:\n    {TEACH}\n    {RECALL}\n    def __init__(self, folder, siz=1): pass",
        "Memory: got an unexpected keyword argument 'size'",
    ),
]


@pytest.mark.parametrize(("source", "said"), WRONG, ids=[said[:30] for _, said in WRONG])
def test_what_is_missing_or_wrong_is_one_sentence(tmp_path, module, source, said):
    settings = "{size: 3}" if "siz=" in source else "{k: 5}"
    with pytest.raises(ParameterError) as error:
        presets.load(preset(tmp_path, module(source), settings))
    sentence = str(error.value)
    assert sentence.startswith("system is 'mine:Memory', but must be a class with teach(texts) and")
    assert said.replace("\\", "") in sentence
    assert "\n" not in sentence


FAILS = [
    ("def teach(self, texts): raise KeyError('x')", RECALL, "teach failed (KeyError: 'x')"),
    (TEACH, RECALL, "The store of mine-"),
    ("def teach(self, texts): (self.folder / 'a').touch()",
     "def recall(self, question, k): return ['a'] * 6", "a list of at most 5 texts"),
    ("def teach(self, texts): (self.folder / 'a').touch()",
     "def recall(self, question, k): return [3]", "a list of at most 5 texts"),
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
