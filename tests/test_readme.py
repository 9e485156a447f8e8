"""Every command and Python block of the README runs, in order, in a folder like a fresh clone.

A model, texts and questions are at the paths that the commands name, so no command is changed;
`helpers_commands` makes the runs small. Commands that install packages are only checked.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib

import helpers_commands as commands
import pytest
from helpers_commands import blocks
from helpers_model import tiny_model
from helpers_server import Server, with_window
from helpers_tasks import FAMILIES

from conftest import ROOT
from rulerlib import tokens

pytest.importorskip("torch")
pytest.importorskip("papermill")

README = ROOT / "README.md"
BLOCKS = blocks(README)
BASH = [block for block in BLOCKS if block.language == "bash"]
PYTHON = [block for block in BLOCKS if block.language == "python"]

# Modules of the book that the commands run.
BOOK = ("__init__", "page")


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A folder with the files that the commands name."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("notebooks", "params"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "book").mkdir()
    for name in ("README.md", *(f"book/{module}.py" for module in BOOK)):
        shutil.copy(ROOT / name, folder / name)
    (folder / "runs").mkdir()
    tiny_model(folder / "owner" / "name", FAMILIES["qwen 3"])
    (folder / "path" / "to" / "texts").mkdir(parents=True)
    for number in range(3):
        text = f"Kapitel {number} begynder her, og her står min egen tekst om haven. " * 20
        (folder / "path" / "to" / "texts" / f"{number}.txt").write_text(text, "utf-8")
    return folder


@pytest.fixture
def inside(clone, monkeypatch):
    """The folder, as the current one."""
    monkeypatch.chdir(clone)
    monkeypatch.delenv("RULERLIB_HOME", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return clone


def dry(target, *settings):
    """Return the commands that ``make`` would run."""
    make = ["make", "-n", "-B", target, *settings]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def installs(words, inside):
    """Check that pip installs an extra of the project, or a package of one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras, what = project["optional-dependencies"], words[-1]
    if own := re.fullmatch(r"\.\[([\w,]+)\]", what):
        assert set(own[1].split(",")) <= set(extras)
    else:
        assert any(line.startswith(what) for lines in extras.values() for line in lines)


def makes(words, inside):
    """Check a target; `make niah` runs the commands that the README shows."""
    told = dry(*words[1:])
    assert told
    if words[1:] == ["niah"]:
        assert all(" ".join(shown) in told for shown in BASH[1].commands())


def python(words, inside):
    """Run a module."""
    subprocess.run([sys.executable, *words[1:]], cwd=inside, check=True, timeout=120)
    if "book.page" in words:
        # The figures are embedded, and nothing is loaded from elsewhere.
        page = (inside / words[-1]).with_suffix(".html").read_text("utf-8")
        assert page.count('src="data:image/png') >= 2
        assert "accuracy by length. " in page
        assert not re.search(r"<script|<link|(src|href)=.(https?:)?//[^>]*\.(js|css)", page)


def rulerlib(words, inside):
    """Run the command of this project."""
    python(["python", "-m", *words], inside)


def papermill(words, inside):
    """Run a notebook, with a server at the address in the environment."""
    with Server(lambda prompt, attempt: None).running() as server:
        server.answer = with_window(10**6, tokens.load(str(inside / "owner" / "name")))
        os.environ.update(OPENAI_BASE_URL=server.url, OPENAI_API_KEY="none")
        try:
            commands.run_papermill(words[1:])
        finally:
            del os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
    assert bool(server.answered) == ("params/served_model.yaml" in words)
    done = [cell for cell in commands.code_cells(inside / words[2]) if cell.outputs]
    assert len(done) >= 4


KINDS = {
    "make": makes, "papermill": papermill, "python": python, "pip": installs, "rulerlib": rulerlib,
}  # fmt: skip

# These change the shell, serve until they are stopped, or run these tests.
NOT_RUN = ("export", "source", "voila", "pytest")

COMMANDS = [words for block in BASH for words in block.commands() if words[0] not in NOT_RUN]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command(inside, words):
    KINDS[words[0]](words, inside)


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_a_block_of_python(inside, number):
    """Each block runs by itself in a new folder."""
    code = PYTHON[number].code
    if "parquet" in code:
        pytest.importorskip("pyarrow", reason="needs pip install -e '.[hub]', as the README says")
    place = inside / f"python {number}"
    place.mkdir()
    os.chdir(place)
    namespace = {}
    exec(code, namespace)
    *_, last = ast.parse(code).body
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Tuple):
        text, outputs, depths, positions = eval(ast.unparse(last.value), namespace)
        assert outputs[0] in text
        assert len(outputs) == 1
        assert len(depths) == len(positions) >= 1
    written = re.findall(r'"([\w.]+\.(?:csv|parquet))"', code)
    assert all((place / name).stat().st_size for name in written)
