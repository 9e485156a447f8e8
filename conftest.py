"""What the notebooks that nbmake runs leave behind goes to a folder of its own."""

import os
import shutil
import tempfile

HOME = "RULERLIB_HOME"

_folders = []


def _folder():
    _folders.append(tempfile.mkdtemp(prefix="rulerlib-"))
    return _folders[-1]


# Set before any kernel starts: a run found in runs/ would be resumed, and nothing tested.
os.environ[HOME] = _usual = _folder()


def pytest_unconfigure():
    for folder in _folders:
        shutil.rmtree(folder)


def pytest_runtest_setup(item):
    """Give notebooks/analysis.ipynb, which asks no model, a small run to look at."""
    if item.path.name == "analysis.ipynb":
        os.environ[HOME] = _folder()
        # Not before it is needed: other tests have a say in how torch is loaded.
        from rulerlib.runs import Run

        for language in ("da", "en"):
            names = ["niah_single_2", "niah_multikey_2", "qa_1"]
            Run(names, language=language, length=1024, num_lengths=2, num_samples=2).predict()


def pytest_runtest_teardown(item):
    if item.path.name == "analysis.ipynb":
        os.environ[HOME] = _usual
