"""Notebooks as lessons: pages fold code, downloads have results, and answers to exercises hold."""

from __future__ import annotations

import ast
import json
import re

import pytest
from helpers_model import ROOT

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("pandas")
pytest.importorskip("wordfreq")
pytest.importorskip("sphinx_book_theme", reason="the site needs rulerlib[book]")

from book import lessons  # noqa: E402
from rulerlib.plots import SVG  # noqa: E402

v4 = nbformat.v4


def test_a_page_folds_its_code_and_its_download_has_the_results(tmp_path):
    source = tmp_path / "_sources" / "notebooks" / "page.ipynb"
    source.parent.mkdir(parents=True)
    source.write_text("{}")
    figure = {"image/png": "dots", SVG: "<svg/>", "text/plain": "A curve."}
    output = v4.new_output("display_data", dict(figure))
    cell = v4.new_code_cell("plot()", outputs=[output], metadata={"papermill": {"a": 1}})
    notebook = v4.new_notebook(cells=[cell], metadata={"papermill": {"path": "/home/me"}})
    lessons.fold_code(notebook)
    assert notebook.cells[0].metadata.tags == ["hide-input"]
    lessons.replace_downloads(tmp_path, [("notebooks/page", notebook), ("notebooks/none", None)])
    found = nbformat.read(source, as_version=4)
    assert found.cells[0].outputs[0].data == {"image/png": "dots", "text/plain": "A curve."}
    assert "papermill" not in json.dumps(found)
    lessons.use_svg(figure)
    assert figure == {"image/svg+xml": "<svg/>", "text/plain": "A curve."}


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
