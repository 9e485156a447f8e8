"""What a test draws depends on nothing but the test: not on its company, nor on the machine."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT

# A file that the drawn examples are written to.
RECORD = "RULERLIB_RECORD_DRAWS"


def record(*values: object) -> None:
    if path := os.environ.get(RECORD):
        with open(path, "a", encoding="utf-8") as file:
            print(ascii(values), file=file)


VALUES = st.tuples(
    st.text(max_size=9), st.integers(), st.floats(), st.lists(st.sampled_from(["a", "b", "c"]))
)


@given(VALUES)
def test_examples_are_drawn(values):
    record("of the test", values)


@pytest.mark.hypothesis
@pytest.mark.parametrize("number", [1, 2])
def test_examples_are_drawn_within(number):
    @given(VALUES)
    def draw(values):
        record("within", number, values)

    draw()


def test_nothing_but_the_test_decides_what_is_drawn(tmp_path):
    """Neither other files, their order, that of strings, nor the folder where it begins.

    The other files import much of the library, where Hypothesis finds words of its own.
    """
    this = str(ROOT / "tests" / "test_conftest.py")
    company = [str(ROOT / "tests" / name) for name in ("test_store.py", "test_languages.py")]
    ways = {
        "alone": ([this], "0"),
        "in company": ([*company, this], "1"),
        "another seed": ([this, "--hypothesis-seed", "7"], "0"),
    }
    drawn = {}
    for way, (options, hash_seed) in ways.items():
        path = tmp_path / way
        ended = subprocess.run(
            # Of the plugins the one that counts: all of them take as long as the tests.
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "examples_are_drawn",
             "-p", "_hypothesis_pytestplugin", *options],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, RECORD: str(path),
                 "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            cwd=ROOT if way == "alone" else tmp_path, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        drawn[way] = sorted(path.read_text("utf-8").splitlines())
    assert len(drawn["alone"]) >= 3 * 100
    assert drawn["in company"] == drawn["alone"]
    assert drawn["another seed"] != drawn["alone"]
