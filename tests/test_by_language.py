"""What OneRULER published by language, read again with the standard library."""

import csv
from pathlib import Path

import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

from book import by_language  # noqa: E402
from rulerlib.errors import DataError, ParameterError  # noqa: E402

FILE = Path(__file__).parents[1] / "book" / "data" / "published_oneruler.csv"


@pytest.fixture(scope="module")
def cells():
    with FILE.open(encoding="utf-8") as file:
        rows = [(row["model"], row["language"], row["length"], row["niah_accuracy"])
                for row in csv.DictReader(file)]  # fmt: skip
    return {(model, code, int(length)): float(value) for model, code, length, value in rows}


def test_every_cell_is_there_once(cells):
    models, languages, lengths = ({key[at] for key in cells} for at in range(3))
    assert (len(models), len(languages), len(lengths)) == (6, 26, 4)
    assert len(cells) == 6 * 26 * 4
    assert len(by_language.read_table(FILE)) == len(cells)


def test_losses_and_ranks_are_those_of_the_cells(cells):
    losses = by_language.losses(by_language.read_table(FILE), ["sv", "da"])
    assert len(losses) == 12
    for row in losses.to_dict("records"):
        model, code = row["model"], row["language"]
        assert row["loss"] == cells[model, code, 8192] - cells[model, code, 131072]
        last = [
            value for (name, _, length), value in cells.items() if (name, length) == (model, 131072)
        ]
        mine = cells[model, code, 131072]
        better, equal = sum(value > mine for value in last), last.count(mine)
        assert row["rank"] == better + (equal + 1) / 2


def test_the_figure_says_what_it_shows():
    figure = by_language.courses(by_language.read_table(FILE))
    assert "Llama 3.1 8B, from 8K to 128K: English 94 to 70 %, Danish 78 to 22 %" in figure.alt


def test_bad_input_is_one_sentence(tmp_path):
    table = by_language.read_table(FILE)
    with pytest.raises(ParameterError, match="languages is 'is', but must be a language"):
        by_language.losses(table, ["en", "is"])
    (tmp_path / "other.csv").write_text("model,score\na,1\n", "utf-8")
    for name in ("none.csv", "other.csv"):
        with pytest.raises(DataError, match="cannot be read"):
            by_language.read_table(tmp_path / name)
