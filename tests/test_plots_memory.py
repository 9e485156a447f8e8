"""The figures of memories hold what their tables say."""

from __future__ import annotations

import pytest
from helpers_memory_rows import PRESETS, runs

from rulerlib.errors import ParameterError

pd = pytest.importorskip("pandas")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

from rulerlib.memory import plots, tables  # noqa: E402
from rulerlib.memory.plots import LOOKS  # noqa: E402

SUITES = ("episodic", "episodic_multi")

# Presets that recall nothing.
NONE = ("core", "span_short", "longctx")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return tables.read(runs(tmp_path_factory.mktemp("runs"), suites=SUITES, size=20))


def panels(figure):
    return [axes for axes in figure.axes if axes.get_title()]


def test_the_matrix_has_a_dot_and_an_interval_for_each_preset(rows):
    table, floors = tables.table(rows), tables.floors(rows)
    others = floors.assign(language="en", chance=1.0, constant=1.0)
    figure = plots.matrix(table, pd.concat([floors, others]), title="title")
    assert figure.get_suptitle() == "title"
    for axes, suite in zip(panels(figure), SUITES, strict=True):
        assert axes.get_title() == f"{suite}\nn = 20"
        part = table[table["suite"] == suite]
        dots = next(line for line in axes.lines if line.get_marker() == "o")
        assert dots.get_xdata().tolist() == part["em"].tolist()
        assert dots.get_ydata().tolist() == list(range(len(PRESETS)))
        ends = [[*segment[:, 0]] for segment in axes.collections[0].get_segments()]
        assert ends == part[["em low", "em high"]].to_numpy().tolist()
        lines = {line.get_label(): line.get_xdata()[0] for line in axes.lines[1:]}
        own = floors[floors["suite"] == suite].iloc[0]
        assert lines["chance"] == pytest.approx(own["chance"])
        assert lines["always the most frequent answer"] == own["constant"]
        oracle = part[part["preset"] == "oracle"]["em"].iloc[0]
        assert lines["oracle: the facts given"] == oracle
    assert [text.get_text() for text in panels(figure)[0].get_yticklabels()] == list(PRESETS)


def test_the_matrix_is_of_one_model_and_language(rows):
    table = tables.table(rows)
    with pytest.raises(ParameterError, match="of one model, language and size"):
        plots.matrix(pd.concat([table, table]))
    for draw in (plots.matrix, plots.capacity, plots.stores):
        with pytest.raises(ParameterError, match="table is 'empty'"):
            draw(table[:0])


def test_bars_of_what_was_lost_fill_the_whole(rows):
    table = tables.fates(rows)
    figure = plots.stores(table, title="title")
    assert [*LOOKS] == tables.FATES
    for axes, suite in zip(panels(figure), SUITES, strict=True):
        part = table[table["suite"] == suite]
        for place, name in enumerate(PRESETS):
            bars = [bars[place] for bars in axes.containers]
            shares = part[part["preset"] == name]["share"].tolist()
            assert [bar.get_width() for bar in bars] == pytest.approx(shares)


def test_capacity_is_drawn_by_the_number_of_facts(tmp_path):
    for facts in (10, 100, 1000):
        runs(tmp_path, suites=("episodic_capacity",), size=10, taught=facts)
    table = tables.capacity(tables.read(tmp_path))
    right, recalled = panels(plots.capacity(table))
    lines = {axes: dict(zip(axes.get_legend_handles_labels()[1], axes.containers, strict=True))
             for axes in (right, recalled)}  # fmt: skip
    assert [*lines[right]] == [f"{name} (n = 10)" for name in PRESETS]
    # A memory that recalls nothing has no line.
    recalling = [f"{name} (n = 10)" for name in PRESETS if name not in NONE]
    assert [*lines[recalled]] == recalling
    rag = table[table["preset"] == "rag"]
    assert lines[right]["rag (n = 10)"][0].get_ydata().tolist() == rag["em"].tolist()
    assert [text.get_text() for text in right.get_xticklabels()] == ["10", "100", "1000"]
