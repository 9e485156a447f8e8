"""The progress bar, in a terminal and in a notebook."""

from __future__ import annotations

import io
import os
import sys

import pytest

from rulerlib.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """Replace stderr by a terminal; pytest would undo that in a fixture."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_a_terminal_shows_the_percentage_and_ends_its_line(monkeypatch):
    shown = terminal(monkeypatch)
    with Progress(4, "da") as bar:
        bar.update(1)
        bar.refresh()
        assert "da:  25%|██████  " in shown.getvalue()
        bar.set_description_str("en")
        bar.update(3)
    assert "en: 100%|████████████████████████| 00:00      \n" in shown.getvalue()


def test_skipped_work_does_not_count_as_speed(monkeypatch):
    terminal(monkeypatch)
    with Progress(100, "da") as bar:
        bar.skip(50)
        assert "da:  50%" in str(bar)
        assert str(bar).endswith("<?"), "the time left is not known yet"
        bar.start_t -= 10
        bar.update(10)
        assert str(bar).endswith("60%|██████████████▍         | 00:10<00:40")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_the_bar_of_a_kernel_reaches_the_terminal(monkeypatch):
    """A kernel replaces stderr and keeps a copy of the file descriptor that it had."""
    outer, inner = os.openpty()

    class Taken(io.StringIO):
        _original_stdstream_copy = inner

    monkeypatch.setattr(sys, "stderr", Taken())
    with Progress(1, "da") as bar:
        bar.update(1)
    os.close(inner)
    drawn = b""
    while b"100%" not in drawn:
        drawn += os.read(outer, 10_000)
    assert b"da: 100%" in drawn
    os.close(outer)


def test_a_notebook_shows_one_line_that_is_updated(monkeypatch):
    IPython = pytest.importorskip("IPython")  # noqa: N806
    from IPython import display as module

    drawn = []

    class Handle:
        def update(self, data, raw):
            drawn.append(data["text/plain"])

    monkeypatch.setitem(sys.modules, "ipykernel", IPython)
    monkeypatch.setattr(IPython, "get_ipython", object)
    monkeypatch.setattr(module, "display", lambda *_, **options: options["display_id"] and Handle())
    with Progress(4, "da") as bar:
        for _ in range(4):
            bar.update(1)
    assert drawn[0].startswith("da:   0%")
    assert drawn[-1].startswith("da: 100%")
