"""Every notebook is executed once for all tests, and what belongs together runs in one process.

``pytest --nbmake`` executes each notebook with the small settings of ``tests/settings`` and leaves
it where `book.execute` keeps the executions of pages, so that the tests of the book show it and the
tests of the notebooks look at it. With ``--overwrite`` the notebooks themselves are executed, as
they are.

Side by side (``-n 2 --dist loadscope``), a process takes whole files, so that what a file's tests
share is made once, and the notebooks and the slow files come first, so that none is left to the
end.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
HOME = "RULERLIB_HOME"
EXECUTED, SETTINGS = "RULER_BOOK_EXECUTED", "RULER_BOOK_SETTINGS"

_folders = []


def _folder():
    _folders.append(tempfile.mkdtemp(prefix="rulerlib-"))
    return _folders[-1]


# Set before any kernel starts: a run found in runs/ would be resumed, and nothing tested.
os.environ[HOME] = _usual = _folder()
os.environ[EXECUTED] = _folder()
os.environ[SETTINGS] = str(ROOT / "tests" / "settings")
# Threads that wait for each other cost more than small models do; before torch starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_unconfigure():
    for folder in _folders:
        shutil.rmtree(folder)


# The slowest of the other files.
LONG = {
    "test_golden", "test_results", "test_notebooks", "test_gguf", "test_runs",
    "test_readme", "test_transformers_engine", "test_qa",
}  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Put notebooks and slow files first, so that no process is left alone at the end.

    Before all others goes what the site shows: building that, and reading it, takes longest.
    """
    slow = {item.path for item in items if is_notebook(item) or item.get_closest_marker("slow")}
    items.sort(
        key=lambda item: (
            page_of(item.path) not in (SHOWN, *LOOK_AT), item.path not in slow,
            not is_notebook(item), item.path.stem not in LONG,
        )
    )  # fmt: skip


# These test files read the site, which shows the execution of this notebook; they run together with
# the tests that name its page.
SHOWN = "notebooks/trace"
LOOK_AT = dict.fromkeys((f"tests/{name}" for name in ("test_book", "test_needle_page")), SHOWN)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let one process have a whole file, or what looks at one notebook."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            page = re.search(r"\[(notebooks/\w+)\]$", nodeid)
            file = nodeid.partition("::")[0].rpartition(".")[0]
            return page[1] if page else LOOK_AT.get(file, file)

    return Together(config, log)


def is_notebook(item):
    return getattr(item, "nbmake", False)


def page_of(path):
    """Return a file's path from the root, without its ending: of a notebook, its page."""
    return path.relative_to(ROOT).with_suffix("").as_posix()


def pytest_runtest_setup(item):
    """Give notebooks/analysis.ipynb, which asks no model, a small run to look at."""
    if item.path.name == "analysis.ipynb":
        os.environ[HOME] = _folder()
        # Not before it is needed: other tests have a say in how torch is loaded.
        from rulerlib.runs import Run

        for language in ("da", "en"):
            names = ["niah_single_2", "qa_1"]
            Run(names, language=language, length=1024, num_lengths=2, num_samples=2).predict()


# Numbers of samples, which the tests reduce to 4.
MANY = re.compile(r"\bnum_samples=\d{2,}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Let nbmake execute a copy with small settings, and keep what it shows."""
    if not is_notebook(item) or item.config.option.overwrite:
        return (yield)
    import helpers_kernel

    from book import execute

    page = page_of(item.path)
    trial = execute.prepared(page)
    trial.write_text(MANY.sub("num_samples=4", trial.read_text("utf-8")), "utf-8")
    item.filename, item.config.option.overwrite = str(trial), True
    try:
        with helpers_kernel.forked():
            result = yield
    finally:
        item.config.option.overwrite = False
    execute.finished(page, trial)
    return result


def pytest_runtest_teardown(item):
    if item.path.name == "analysis.ipynb":
        os.environ[HOME] = _usual
