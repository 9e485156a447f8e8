"""Figures hold what their tables say, and can be read by everyone."""

from __future__ import annotations

import random
import re
import sys
from itertools import pairwise

import pytest

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

from matplotlib.colors import to_rgb  # noqa: E402

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


@pytest.mark.parametrize("tasks", [["a"], list("abcd")])
def test_the_heatmap_is_its_table(tasks):
    table = analysis.by_depth(scores(tasks))
    figure = plots.heatmap(table, title="title")
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


def lightness(colour):
    """L* of CIELAB, from sRGB by its standard's formulas."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(colour)
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * luminance ** (1 / 3) - 16 if luminance > 0.008856 else 903.3 * luminance


def test_better_is_lighter_everywhere():
    """So that colour-blind readers can order the cells."""
    shades = panels(plots.heatmap(analysis.by_depth(scores())))[0].images[0].cmap
    light = [lightness(shades(step / 255)) for step in range(256)]
    assert all(after > before for before, after in pairwise(light))
    assert light[-1] - light[0] > 50


def test_curves_show_means_and_intervals():
    table = analysis.accuracy(scores(("a", "b"), count=60))
    axes = plots.curves(table, title="title").axes[0]
    assert axes.get_title() == "title"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    for number, task in enumerate("ab"):
        part = table[table["task"] == task]
        line = axes.lines[number]
        aside = np.log2(line.get_xdata(orig=False) / part["length"].to_numpy(float))
        assert np.abs(aside).max() < 0.25
        assert line.get_ydata().tolist() == part["mean"].tolist()
        bars = axes.collections[number].get_segments()
        for bar, at, *ends in zip(bars, line.get_xdata(), part["low"], part["high"], strict=True):
            assert bar.ravel().tolist() == pytest.approx([at, ends[0], at, ends[1]])
        assert labels[number].startswith(f"{task} (n = ")
        assert str(part["n"].min()) in labels[number]
    assert len({line.get_color() for line in axes.lines[:2]}) == 2
    assert len({line.get_marker() for line in axes.lines[:2]}) == 2


def averages(models=("a", "b"), languages=("da",), count=40):
    rng = random.Random(2)
    rows = []
    for model in models:
        for language in languages:
            for step, length in enumerate((512, 1024, 4096)):
                for index in range(count):
                    about = {"model": model, "language": language, "task": "vt", "length": length}
                    said = "12" if rng.random() < 0.95 - 0.25 * step else "no"
                    rows.append((about, Prediction(index, "", ["12"], said)))
    return analysis.scores(rows)


def test_models_are_lines_with_their_intervals():
    table = analysis.by_length(averages())
    axes = plots.models(table, threshold=60, title="t").axes[0]
    for number, name in enumerate("ab"):
        part = table[table["model"] == name]
        assert axes.lines[number].get_ydata().tolist() == part["average"].tolist()
        assert axes.get_legend().get_texts()[number].get_text() == f"{name} (n = 40)"
    assert axes.lines[-1].get_ydata() == [60, 60]
    assert "threshold 60" in [text.get_text() for text in axes.texts]
    two = plots.models(analysis.by_length(averages(languages=("da", "en"))))
    labels = [text.get_text().split(" (")[0] for text in two.axes[0].get_legend().get_texts()]
    assert labels == ["a, da", "a, en", "b, da", "b, en"]


def test_errors_are_as_high_as_the_error_rate():
    rng = random.Random(5)
    rows = []
    for task in ("niah_single_1", "niah_single_2"):
        for length in (512, 1024):
            for index in range(30):
                said = rng.choice(["1234567", "", "7654321", "1111111", "I cannot find it."])
                about = {"model": "m", "language": "en", "task": task, "length": length}
                text = "a 1234567 b 1111111 c"
                rows.append((about, Prediction(index, text, ["1234567"], said)))
    found = analysis.scores(rows)
    table = analysis.errors(found)
    figure = plots.errors(table, title="t")
    shown = [axes for axes in figure.axes if axes.get_title()]
    for axes in shown:
        part = analysis.of_measure(found[found["task"] == axes.get_title().splitlines()[-1]])
        for place, length in enumerate((512, 1024)):
            bars = [
                bar for bar in axes.patches if round(bar.get_x() + bar.get_width() / 2) == place
            ]
            top = max(bar.get_y() + bar.get_height() for bar in bars)
            assert top == pytest.approx(1 - part[part["length"] == length]["value"].mean())
        assert axes.get_xticklabels()[0].get_text() == "512\nn=30"
    looks = {(bar.get_facecolor(), bar.get_hatch()) for bar in shown[0].patches}
    assert len(looks) == table["error"].nunique(), "each kind has its own look"


def test_a_notebook_stores_the_words_beside_the_picture(monkeypatch):
    """As a kernel asks, with its inline backend, which would take any other figure."""
    capture = pytest.importorskip("IPython.utils.capture")
    inline = pytest.importorskip("IPython.core.pylabtools")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import display

    figure = plots.curves(analysis.accuracy(scores()))
    # The shell replaces this module.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    inline.select_figure_formats(InteractiveShell.instance(), {"png"})
    with capture.capture_output() as caught:
        display(figure)
    InteractiveShell.clear_instance()
    (picture,) = caught.outputs
    assert picture.data["text/plain"] == figure.alt
    width, height = figure.get_size_inches() * figure.dpi
    size = {"width": round(width), "height": round(height)}
    assert picture.metadata["image/png"] == {"alt": figure.alt, **size}
    assert picture.data[plots.SVG] == plots.svg(figure)
    assert "image/svg+xml" not in picture.data, "Jupyter would show it, without its words"
    assert picture.data["image/png"][:4] == b"\x89PNG"
    # The sixteenth byte begins the width in pixels, four bytes long.
    assert int.from_bytes(picture.data["image/png"][16:20]) == pytest.approx(2 * width, abs=2)


def test_on_a_dark_page_ink_is_light_and_letters_on_colours_stay():
    """Whatever is black or white by default turns; what is on a colour is another black."""
    figure = plots.heatmap(analysis.by_depth(scores()))
    inks = {to_rgb(text.get_color()) for axes in panels(figure) for text in axes.texts}
    assert inks <= {to_rgb("#010101"), to_rgb("#fefefe")}
    picture = plots.svg(figure)
    paper = re.search(r'id="patch_1">\s*<path[^>]*style="([^"]*)"', picture)[1]
    dark = dict(re.findall(r'\[style\*="([^"]*)"\] { \w+: (#\w+)', picture))
    assert dark[paper] == "#121212"
    assert not any(old.endswith(("#010101", "#fefefe")) for old in dark)
    for old, new in dark.items():
        if old != "fill: #ffffff":
            apart = lightness(new) - lightness(dark[paper])
            assert apart > 30, f"{old} on dark paper"
