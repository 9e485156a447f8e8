"""The answers to the exercises of the notebooks hold."""

from __future__ import annotations

import ast
import re

import pytest
from helpers_model import ROOT

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("pandas")
pytest.importorskip("wordfreq")


def exercises():
    """Return the text of the exercises of each notebook that has some."""
    texts = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.source.startswith("## Exercises"):
                texts[path.stem] = cell.source
    return texts


EXERCISES = exercises()


@pytest.mark.parametrize("name", EXERCISES)
def test_every_answer_to_an_exercise_is_what_the_library_says(name):
    """Code in an answer runs, and each line gives the value in its comment."""
    answers = re.findall(
        r"<details>\n<summary>Answer to (\d)</summary>\n\n(.+?)\n\n</details>",
        EXERCISES[name],
        re.DOTALL,
    )
    assert [number for number, _ in answers] == ["1", "2", "3"]
    for _, text in answers:
        for code in re.findall(r"```python\n(.+?)\n```", text, re.DOTALL):
            known = {}
            for node in ast.parse(code).body:
                said = re.search(r"  # (.+)$", code.splitlines()[node.end_lineno - 1])
                line = ast.unparse(node)
                if isinstance(node, ast.Expr):
                    assert said, f"nothing says what it gives: {line}"
                    assert repr(eval(line, known)) == said[1], line
                else:
                    exec(line, known)
