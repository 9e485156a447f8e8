"""Figures hold what their tables say, and can be read by everyone."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import pairwise

import pytest
from helpers_model import ROOT, bare_environment

from rulerlib.errors import ParameterError

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

from matplotlib.colors import to_rgb, to_rgba  # noqa: E402

from rulerlib import analysis, plots  # noqa: E402
from rulerlib.samples import Prediction  # noqa: E402

LENGTHS = (512, 1000, 4096)


def scores(tasks=("niah_single_2",), seed=1, count=80):
    rng = random.Random(seed)
    rows = []
    for task in tasks:
        for index in range(count):
            length = rng.choice(LENGTHS)
            # Deep needles in the longest text are not measured.
            depth = rng.randrange(50 if length == 4096 else 101)
            about = {"model": "m", "language": "da", "task": task, "length": length}
            said = "12" if rng.random() < 0.6 else "no"
            rows.append((about, Prediction(index, "", ["12"], said, {"depths": [depth]})))
    return analysis.scores(rows)


def panels(figure):
    return [axes for axes in figure.axes if axes.images and axes.get_title()]


@pytest.mark.parametrize("colours", plots.COLOURS)
@pytest.mark.parametrize("tasks", [["a"], list("abc"), list("abcdefgh")])
def test_the_heatmap_is_its_table(colours, tasks):
    table = analysis.by_depth(scores(tasks))
    figure = plots.heatmap(table, colours, title="title")
    assert figure.get_suptitle() == "title"
    shown = panels(figure)
    assert [axes.get_title() for axes in shown] == tasks
    for axes in shown:
        part = table[table["task"] == axes.get_title()]
        grid = axes.images[0].get_array()
        depths, lengths = sorted(table["depth"].unique()), sorted(table["length"].unique())
        assert grid.shape == (len(depths), len(lengths))
        wanted = np.full(grid.shape, np.nan)
        counts = {}
        for row in part.to_dict("records"):
            place = depths.index(row["depth"]), lengths.index(row["length"])
            wanted[place] = row["found"]
            counts[place] = str(row["n"])
        np.testing.assert_array_equal(np.ma.filled(grid, np.nan), wanted)
        texts = {(int(text.get_position()[1]), int(text.get_position()[0])): text.get_text()
                 for text in axes.texts}  # fmt: skip
        assert texts == counts
        assert axes.images[0].get_clim() == (0, 1)


def test_depth_goes_down_and_length_goes_right():
    axes = panels(plots.heatmap(analysis.by_depth(scores())))[0]
    low, high = axes.get_ylim()
    assert low > high, "the start of the text is on top"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["512", "1000", "4K"]
    depths = [float(text.get_text()) for text in axes.get_yticklabels()]
    assert depths == sorted(depths)


@pytest.mark.parametrize("colours", plots.COLOURS)
def test_what_was_not_measured_is_grey(colours):
    figure = plots.heatmap(analysis.by_depth(scores()), colours)
    image = panels(figure)[0].images[0]
    painted = image.cmap(image.norm(image.get_array()))
    missing = np.ma.getmaskarray(np.ma.masked_invalid(image.get_array()))
    assert missing.any()
    assert not missing.all()
    np.testing.assert_allclose(painted[missing], [to_rgba(plots.UNMEASURED)] * missing.sum())
    red, green, blue, _ = to_rgba(plots.UNMEASURED)
    assert red == green == blue
    # No share has a colour that could be taken for it: lightness or colour differ clearly.
    for step in range(101):
        shade = image.cmap(step / 100)
        apart = abs(lightness(shade) - lightness(plots.UNMEASURED)) / 100
        assert max(apart, max(shade[:3]) - min(shade[:3])) > 0.15


def lightness(colour):
    """L* of CIELAB, from sRGB by its standard's formulas."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(colour)
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * luminance ** (1 / 3) - 16 if luminance > 0.008856 else 903.3 * luminance


@pytest.mark.parametrize("colours", plots.COLOURS)
def test_better_is_lighter_everywhere(colours):
    """So that a map reads without any colour, too."""
    shades = panels(plots.heatmap(analysis.by_depth(scores()), colours))[0].images[0].cmap
    light = [lightness(shades(step / 50)) for step in range(51)]
    assert all(after > before for before, after in pairwise(light))
    assert light[-1] - light[0] > 50


def test_red_is_low_and_green_is_high():
    shades = panels(plots.heatmap(analysis.by_depth(scores())))[0].images[0].cmap
    (red, green, _, _), (other_red, other_green, _, _) = shades(0.0), shades(1.0)
    assert red > 2 * green
    assert other_green > other_red


@pytest.mark.parametrize("colours", plots.COLOURS)
def test_n_can_be_read_on_its_cell(colours):
    axes = panels(plots.heatmap(analysis.by_depth(scores(count=300)), colours))[0]
    image = axes.images[0]
    for text in axes.texts:
        column, row = (int(at) for at in text.get_position())
        ground = image.cmap(image.norm(image.get_array()[row, column]))
        assert abs(lightness(text.get_color()) - lightness(ground)) > 35


def test_curves_show_means_and_intervals():
    table = analysis.accuracy(scores(("a", "b"), count=60))
    axes = plots.curves(table, title="title", trained=1000).axes[0]
    assert axes.get_title() == "title"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    for number, task in enumerate("ab"):
        part = table[table["task"] == task]
        line = axes.lines[number]
        assert line.get_xdata().tolist() == part["length"].tolist()
        assert line.get_ydata().tolist() == part["all_match"].tolist()
        band = axes.collections[number].get_paths()[0].vertices
        for length, low, high in zip(part["length"], part["low"], part["high"], strict=True):
            at = band[np.isclose(band[:, 0], length)][:, 1]
            assert (at.min(), at.max()) == pytest.approx((low, high))
        assert labels[number].startswith(f"{task} (n = ")
        assert str(part["n"].min()) in labels[number]
    assert len({line.get_color() for line in axes.lines[:2]}) == 2
    assert len({line.get_marker() for line in axes.lines[:2]}) == 2


@pytest.mark.parametrize("trained", [None, 100, 10**6, 1000])
def test_the_trained_length_is_marked_where_it_lies(trained):
    axes = plots.curves(analysis.accuracy(scores()), trained=trained).axes[0]
    assert (len(axes.lines) == 2) == (trained == 1000)


def test_one_length_is_enough_for_a_picture(tmp_path):
    table = scores()
    table = table[table["length"] == 512]
    for figure in (
        plots.curves(analysis.accuracy(table)), plots.heatmap(analysis.by_depth(table))
    ):  # fmt: skip
        figure.savefig(tmp_path / "x.png")
        assert (tmp_path / "x.png").stat().st_size > 2000


@pytest.mark.parametrize("draw", [plots.heatmap, plots.curves])
def test_nothing_measured_is_an_error(draw):
    table = analysis.by_depth(scores()).head(0)
    with pytest.raises(ParameterError, match="table is 'empty'"):
        draw(table)


def test_unknown_colours_are_named():
    with pytest.raises(ParameterError, match="did you mean 'red-green'"):
        plots.heatmap(analysis.by_depth(scores()), "redgreen")


@pytest.mark.parametrize("colours", plots.COLOURS)
def test_a_button_has_the_colour_of_its_cell(colours):
    """And what is written on it can be read: a contrast of 4.5, as WCAG 2 asks."""

    def luminance(colour):
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    for value in [*np.linspace(0, 1, 21), float("nan")]:
        fill, ink = plots.shade(value, colours)
        light, dark = sorted((luminance(to_rgb(fill)), luminance(to_rgb(ink))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, value
    cell = {"task": "t", "length": 512, "depth": 50.0, "n": 1, "found": 0.25}
    panel = plots.heatmap(pd.DataFrame([cell]), colours).axes[0]
    drawn = panel.images[0].cmap(0.25)
    assert matplotlib.colors.to_hex(drawn) == plots.shade(0.25, colours)[0]
    assert plots.shade(float("nan"))[0] == plots.UNMEASURED


def test_figures_are_closed():
    """matplotlib would show a figure twice, and warn after twenty."""
    plots.curves(analysis.accuracy(scores()))
    plots.heatmap(analysis.by_depth(scores()))
    assert matplotlib.pyplot.get_fignums() == []


def test_drawing_without_matplotlib_says_what_to_install(tmp_path):
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("raise ImportError('not here')")
    code = (
        "import pandas as pd\nfrom rulerlib import plots\n"
        "try:\n    plots.curves(pd.DataFrame({'task': ['a']}))\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        env=bare_environment(tmp_path / "home", PYTHONPATH=f"{tmp_path}:{ROOT}"),
    )  # fmt: skip
    assert "pip install 'rulerlib[notebook]'" in done.stdout, done.stderr
