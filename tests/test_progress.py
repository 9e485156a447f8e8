"""The bar: honest about what is done and what is left, in a terminal and in a notebook."""

from __future__ import annotations

import io
import os
import sys

import pytest

from rulerlib import progress
from rulerlib.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless it is moved."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_time_left_is_that_of_the_rest(clock):
    bar = Progress(100, "da", quiet=True)
    assert str(bar).startswith("da:   0% |")
    assert "left" not in str(bar), "nothing is known yet"
    clock.now += 60
    bar.advance(25)
    assert " 25% |" in str(bar)
    assert str(bar).endswith("| 1:00, about 3:00 left")
    clock.now += 180
    bar.advance(75)
    assert "100%" in str(bar)
    assert str(bar).endswith("| 4:00")


def test_what_was_there_already_does_not_make_it_look_fast(clock):
    bar = Progress(100, "da", quiet=True)
    bar.advance(50, measured=False)
    assert " 50% |" in str(bar)
    assert "left" not in str(bar)
    clock.now += 10
    bar.advance(10)
    assert str(bar).endswith("about 0:40 left")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (9.6, "0:10"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00"),
     (7322, "2:02:02"), (360_000, "100:00:00")],
)  # fmt: skip
def test_times(seconds, shown):
    assert progress._clock(seconds) == shown


def test_a_terminal_is_drawn_at_most_twice_a_second(clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(1000, "x") as bar:
        for _ in range(999):
            clock.now += 0.01
            bar.advance(1)
    drawn = terminal.getvalue().split("\r")[1:]
    assert len(drawn) <= 10 / 0.5 + 3
    assert drawn[-1].startswith("x: 100%")
    assert terminal.getvalue().endswith("\n")
    assert all("\x1b[K" in line for line in drawn)


def test_the_last_step_is_drawn_at_once(clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = Progress(2, "x")
    bar.advance(2)
    assert "100%" in terminal.getvalue()


def test_the_terminals_line_ends_once(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(1, "x") as bar:
        bar.advance(1)
        bar.close()
    assert terminal.getvalue().count("\n") == 1


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_from_within_a_kernel_it_reaches_the_terminal(monkeypatch):
    """A kernel takes stderr over and keeps a copy of the file descriptor that it had."""
    outer, inner = os.openpty()

    class Taken(io.StringIO):
        _original_stdstream_copy = inner

    monkeypatch.setattr(sys, "stderr", Taken())
    with Progress(1, "da") as bar:
        bar.advance(1)
    os.close(inner)
    drawn = b""
    while b"100%" not in drawn:  # A terminal hands over what it has, line by line.
        drawn += os.read(outer, 10_000)
    assert b"da: 100%" in drawn
    os.close(outer)


def test_in_a_notebook_one_line_is_drawn_again(clock, monkeypatch):
    """As text, not as a widget, so that it stays in a page that nobody runs."""
    IPython = pytest.importorskip("IPython")  # noqa: N806
    from IPython import display as module

    drawn = []

    class Handle:
        def update(self, data, raw):
            assert raw
            drawn.append(data["text/plain"])

    monkeypatch.setitem(sys.modules, "ipykernel", IPython)
    monkeypatch.setattr(IPython, "get_ipython", object)
    monkeypatch.setattr(module, "display", lambda *_, **options: options["display_id"] and Handle())
    with Progress(4, "da") as bar:
        for _ in range(4):
            clock.now += 1
            bar.advance(1)
    assert drawn[0].startswith("da:   0%")
    assert drawn[-1].startswith("da: 100%")
    assert len(drawn) == 6
