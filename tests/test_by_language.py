"""OneRULER's published results by language, recomputed with the standard library."""

import csv

import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

from book import by_language, stored  # noqa: E402
from book.tables import Tables  # noqa: E402
from conftest import ROOT  # noqa: E402
from rulerlib.errors import DataError, ParameterError  # noqa: E402

FILE = ROOT / "book" / "data" / "published_oneruler.csv"


@pytest.fixture(scope="module")
def cells():
    with FILE.open(encoding="utf-8") as file:
        rows = [(row["model"], row["language"], row["length"], row["niah_accuracy"])
                for row in csv.DictReader(file)]  # fmt: skip
    return {(model, code, int(length)): float(value) for model, code, length, value in rows}


def test_losses_and_ranks_follow_from_the_table(cells):
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


def test_languages_are_compared_with_english_answer_by_answer():
    cells = stored.read(stored.RESULTS / "gemma3-270m")
    right = {
        (*cell.key[1:], one.index, cell.key[0]): all(gold in one.pred for gold in one.outputs)
        for cell in cells
        for one in cell.answers[:20]
    }
    accuracy = Tables(ROOT / "book/results/gemma3-270m_languages").accuracy
    table = by_language.beside(by_language.complete(accuracy))
    # English and Danish at four lengths, Dutch at three.
    assert len(table) == 11
    for row in table.query("language != 'en'").to_dict("records"):
        here = {key: right[key] for key in right if key[1::2] == (row["length"], row["language"])}
        hits = {key: hit for key, hit in here.items() if key[0].startswith("niah")}
        assert len(hits) == row["n"] == 160
        assert row["score"] == sum(hits.values()) / 160
        assert row["difference"] == sum(hits[key] - right[*key[:3], "en"] for key in hits) / 160
        assert -1 <= row["low"] < row["difference"] < row["high"] <= 1


def test_invalid_input_is_named(tmp_path):
    rows = pd.DataFrame({"length": 1, "task": ["a", "b"], "language": ["en", "da"], "right": "1"})
    for code, said in (("en", "of the same tasks by language"), ("sv", "a language of the table")):
        with pytest.raises(ParameterError, match=said):
            by_language.beside(rows, code)
    table = by_language.read_table(FILE)
    with pytest.raises(ParameterError, match="languages is 'is', but must be a language"):
        by_language.losses(table, ["en", "is"])
    (tmp_path / "other.csv").write_text("model,score\na,1\n", "utf-8")
    for name in ("none.csv", "other.csv"):
        with pytest.raises(DataError, match="cannot be read"):
            by_language.read_table(tmp_path / name)
