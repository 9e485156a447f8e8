"""The progress bar, in a terminal and in a notebook."""

from __future__ import annotations

import io
import sys

import pytest

from rulerlib.predict import progress_bar, skip


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_skipped_work_does_not_count_as_speed(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar(100, "da") as bar:
        skip(bar, 50)
        assert "da:  50%" in str(bar)
        assert str(bar).endswith("<?"), "the time left is not known yet"
        bar.start_t -= 10
        bar.update(10)
        assert str(bar).endswith("00:10<00:40")
    assert "da:  60%" in sys.stderr.getvalue()


def test_a_notebook_shows_one_line_that_is_updated(monkeypatch):
    IPython = pytest.importorskip("IPython")  # noqa: N806
    from IPython import display as module

    drawn = []

    class Handle:
        kernel = None

        def update(self, data, raw):
            drawn.append(data["text/plain"])

    monkeypatch.setattr(IPython, "get_ipython", Handle)
    monkeypatch.setattr(module, "display", lambda *_, **options: options["display_id"] and Handle())
    with progress_bar(4, "da") as bar:
        for _ in range(4):
            bar.update(1)
    assert drawn[0].startswith("da:   0%")
    assert drawn[-1].startswith("da: 100%")
