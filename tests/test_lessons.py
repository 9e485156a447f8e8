"""Notebooks as lessons: code is folded, results are handed out."""

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
yaml = pytest.importorskip("yaml")

from book import execute, lessons  # noqa: E402
from rulerlib.plots.base import SVG  # noqa: E402

v4 = nbformat.v4

# The notebooks of a course: one for each family and study, and the analysis.
TAUGHT = (
    "niah", "variable_tracking", "common_words", "frequent_words", "qa", "drop", "episodic",
    "semantic", "spatial", "memory", "analysis", "graphwalks", "mrcr", "records", "ladder",
    "trace", "associations", "cache",
)  # fmt: skip


def executed():
    said = v4.new_output("display_data", {"text/plain": "lille is asked vt."})
    right = v4.new_output("display_data", {"text/plain": "100 %"})
    return v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# Page"),
            v4.new_markdown_cell("## Parameters"),
            v4.new_code_cell("length = 1", metadata={"tags": ["parameters"]}),
            v4.new_code_cell("length = 2", metadata={"tags": ["injected-parameters"]}),
            v4.new_code_cell("run = 1\nshow.run(run)", outputs=[said]),
            v4.new_code_cell("show.table(run)", outputs=[right], metadata={"papermill": {"a": 1}}),
        ],
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "papermill": {"path": "/home/me"},
        },
    )


def test_code_is_folded_and_the_page_opens_with_the_run():
    notebook = executed()
    # A part with nothing to show is left out.
    none = v4.new_output("display_data", {"text/plain": "There is one model here."})
    heading, code = v4.new_markdown_cell("## Two"), v4.new_code_cell("pairs", outputs=[none])
    notebook.cells[1:1] = [heading, code]
    lessons.lay_out(notebook)
    nbformat.validate(notebook)
    title, opening, heading, *code = notebook.cells
    assert (title.source, heading.source) == ("# Page", "## Parameters")
    assert opening.outputs[0].data["text/plain"] == "lille is asked vt."
    assert "remove-input" in opening.metadata.tags
    assert [cell.source for cell in code] == [cell.source for cell in executed().cells[2:]]
    assert all("hide-input" in cell.metadata.tags for cell in code)
    assert [cell.metadata.mystnb.code_prompt_show for cell in code] == [
        "Show the parameters and defaults", "Show the parameters of this page", "Show the code",
        "Show the code",
    ]  # fmt: skip
    assert [len(cell.outputs) for cell in code] == [0, 0, 0, 1], "nothing is shown twice"


def test_a_download_has_the_results_and_nothing_of_the_machine(tmp_path):
    source = tmp_path / "_sources" / "notebooks" / "page.ipynb"
    source.parent.mkdir(parents=True)
    source.write_text("{}")
    lessons.hand_out(tmp_path, [("notebooks/page", executed()), ("notebooks/none", executed())])
    found = nbformat.read(source, as_version=4)
    nbformat.validate(found)
    assert [len(cell.outputs) for cell in found.cells if cell.cell_type == "code"] == [0, 0, 1, 1]
    assert "papermill" not in json.dumps(found)
    assert not (tmp_path / "_sources" / "notebooks" / "none.ipynb").exists()


def test_new_prose_is_shown_around_old_results():
    notebook = executed()
    del notebook.cells[3]
    notebook.cells[0].source = "# Another page"
    notebook.cells.append(v4.new_markdown_cell("More."))
    cells = execute.with_prose(executed(), notebook)
    assert cells[0].source == "# Another page"
    assert [cell.source for cell in cells[2:-1]] == [cell.source for cell in executed().cells[2:]]
    assert [len(cell.outputs) for cell in cells[2:-1]] == [0, 0, 1, 1]
    assert cells[-1].source == "More."
    notebook.cells[2].source = "length = 3"
    assert execute.with_prose(executed(), notebook)[0].source == "# Page"


def test_a_page_shows_the_figure_in_lines_and_a_download_in_dots():
    figure = {"image/png": "dots", SVG: "<svg/>", "text/plain": "A curve."}
    data = dict(figure)
    lessons.sharpen(data)
    assert data == {"image/svg+xml": "<svg/>", "text/plain": "A curve."}
    plain = {"image/png": "dots"}
    lessons.sharpen(plain)
    assert plain == {"image/png": "dots"}


def test_binder_installs_what_the_notebooks_need():
    """The extras of `make niah`, from the folder in which conda runs pip: that of the file."""
    file = ROOT / ".binder" / "environment.yml"
    given = yaml.safe_load(file.read_text("utf-8"))["dependencies"]
    (lines,) = (each["pip"] for each in given if isinstance(each, dict))
    named = dict(line.split(" ", 1) for line in lines)
    assert (file.parent / named["-c"]).resolve() == ROOT / "constraints.txt"
    path, extras = re.fullmatch(r"(.+?)\[(.+)\]", named["-e"]).groups()
    assert (file.parent / path).resolve() == ROOT
    make = (ROOT / "Makefile").read_text("utf-8")
    assert f"-e '.[{extras}]'" in make.partition("run.stamp:")[2].partition("\n\n")[0]


def answers(name):
    """The three hidden answers of a notebook, each below its question."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    (cell,) = (cell for cell in notebook.cells if cell.source.startswith("## Exercises"))
    found = re.findall(
        r"\*\*(\d)\. [^*]+\*\* [^\n]+\n\n<details>\n<summary>Answer to (\d)</summary>\n\n"
        r"(.+?)\n\n</details>",
        cell.source,
        re.DOTALL,
    )
    assert [question for question, *_ in found] == [answer for _, answer, _ in found] == [*"123"]
    assert cell.source.count("<details>") == 3
    return [text for *_, text in found]


@pytest.mark.parametrize("name", TAUGHT)
def test_every_answer_to_an_exercise_is_what_the_library_says(name):
    """Code in an answer runs as it stands, and gives what the comment behind a line says."""
    checked = 0
    for text in answers(name):
        for code in re.findall(r"```python\n(.+?)\n```", text, re.DOTALL):
            known = {}
            for node in ast.parse(code).body:
                said = re.search(r"  # (.+)$", code.splitlines()[node.end_lineno - 1])
                line = ast.unparse(node)
                if isinstance(node, ast.Expr):
                    assert said, f"nothing says what it gives: {line}"
                    assert repr(eval(line, known)) == said[1], line
                    checked += 1
                else:
                    exec(line, known)
    assert checked


def test_no_sentence_stands_in_two_notebooks():
    """What several have to say stands once, in the library or on a page, and is linked."""
    seen = {}
    for path in sorted([*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "book").glob("*.ipynb")]):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                prose = re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL)
                for sentence in re.split(r"(?<=[.:?])\s+|\n\n", prose):
                    if len(sentence) > 60 and "](../book/" not in sentence:
                        other = seen.setdefault(" ".join(sentence.split()), path.name)
                        assert other == path.name, sentence
