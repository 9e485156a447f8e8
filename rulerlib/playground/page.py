"""The playground with sliders and buttons, for JupyterLab and Voila.

The page holds no state but what was asked last: all else is read from the
`Playground` that it draws.
"""

from __future__ import annotations

import functools
import html
import itertools
import math
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from rulerlib import languages, packages
from rulerlib.errors import RulerError
from rulerlib.playground import labels
from rulerlib.playground.labels import LABELS, TIPS
from rulerlib.playground.setting import ROWS, WORDING, Setting, where
from rulerlib.playground.state import Playground

# Needles of each kind that the page offers.
MOST = 8

_TYPES = ("type_needle_k", "type_needle_v")


@dataclass(eq=False)
class Page:
    """A playground with sliders and buttons; the last line of a cell shows it.

    Nothing that goes wrong in it is silent. A mistake of the user's is one sentence on the
    page; anything else is shown there too, kept in ``failures``, and raised by `check`.

    Parameters
    ----------
    play
        The state, which may also be read and set from other cells; `refresh` draws it anew.

    Attributes
    ----------
    controls
        The widgets by the names of the fields of `Setting`.
    failures
        What went wrong that should not have.

    Raises
    ------
    MissingExtraError
        If `ipywidgets` is not installed.
    """

    play: Playground
    controls: dict[str, Any] = field(init=False)
    failures: list[BaseException] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._w = packages.load("ipywidgets", "notebook", "The playground's page")
        self._lock = threading.RLock()
        # What is to be asked: the first of it is being asked, the others wait.
        self._queue: list[Setting] = []
        self._worker: threading.Thread | None = None
        self._shown = next(reversed(self.play.answers), None)
        self._quiet = False
        # Kept until one of its arguments changes: the page is drawn with every move.
        self._shares = functools.lru_cache(maxsize=1)(self._count_shares)
        self.controls = self._make_controls()
        # What anyone reads on the page, as HTML; all that comes from users and models is escaped.
        self.alert, self.budget, self.prompt, self.answer, self.status = (
            self._w.HTML(layout=self._style("2px 0")) for _ in range(5)
        )
        self.ask = self._button("ask", lambda _: self.ask_for(self.play.setting))
        self.ask.button_style = "primary"
        self.another = self._button(
            "another", lambda _: self._set(index=self.play.setting.index + 1)
        )
        self.stop = self._button("stop", self._forget)
        self.cells: dict[tuple[int, int], Any] = {}
        self.box = self._layout()
        self.refresh()

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        display(self.box)  # type: ignore[no-untyped-call]
        display(HTML(labels.NAMES))  # type: ignore[no-untyped-call]

    def check(self) -> None:
        """Wait until all is asked, and raise the first thing that went wrong, if any did.

        A notebook whose callbacks fail looks fine to whoever runs it without looking; with this
        as its last line it does not.

        Raises
        ------
        BaseException
            The first of ``failures``.
        """
        self.wait()
        if self.failures:
            raise self.failures[0]

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the model has answered all that it was asked.

        Raises
        ------
        TimeoutError
            If that takes longer than ``timeout`` seconds.
        """
        if self._worker is not None:
            self._worker.join(timeout)
            if self._worker.is_alive():
                raise TimeoutError(f"still asking after {timeout} seconds")

    # --- Making it ---------------------------------------------------------------------------

    def _style(self, margin: str, **more: str) -> Any:
        """Return a layout as wide as there is room, which shows what juts out of it."""
        return self._w.Layout(width="auto", margin=margin, overflow="visible", **more)

    def _button(self, name: str, clicked: Callable[..., None]) -> Any:
        button = self._w.Button(description=LABELS[name], tooltip=TIPS[name])
        button.on_click(self._guarded(clicked))
        return button

    def _make_controls(self) -> dict[str, Any]:
        w, setting = self._w, self.play.setting
        packs = [(languages.load(code).name, code) for code in languages.available()]
        haystacks = [(name, value) for value, name in labels.HAYSTACK_NAMES.items()]
        types = [(name, value) for value, name in labels.TYPE_NAMES.items()]
        lengths = [(f"{length:,}", length) for length in self.play.lengths]
        late = {"continuous_update": False}
        controls = {
            "language": w.Dropdown(options=packs),
            "haystack": w.Dropdown(options=haystacks),
            "length": w.SelectionSlider(options=lengths, **late),
            "depth": w.IntSlider(min=0, max=100),
            "num_needles": w.BoundedIntText(min=1, max=max(MOST, setting.num_needles)),
            "num_distractors": w.BoundedIntText(min=0, max=max(MOST, setting.num_distractors)),
            "num_values": w.BoundedIntText(min=1, max=max(MOST, setting.num_values)),
            **{name: w.Dropdown(options=types) for name in _TYPES},
            **{name: w.Text(**late) for name in WORDING},
            "text": w.Textarea(rows=5, **late),
        }
        for name, control in controls.items():
            control.description, control.layout = LABELS[name], self._style("2px 0")
            control.style.description_width = "8.5em"
            control.observe(self._guarded(self._moved), names="value")
        return controls

    def _layout(self) -> Any:
        w = self._w

        def column(*names: str) -> Any:
            style = self._style("0 14px 0 0", flex="1 1 250px")
            return w.VBox([self.controls[name] for name in names], layout=style)

        def row(*children: Any) -> Any:
            return w.HBox(children, layout=self._style("0", flex_flow="row wrap"))

        def head(name: str) -> Any:
            return w.HTML(f"<h3>{LABELS[name]}</h3>", layout=w.Layout(margin="0"))

        names = (*WORDING, "text")
        words = w.VBox([w.HTML(labels.HINT), *(self.controls[name] for name in names)])

        def unfold(_: Any = None) -> None:
            words.layout.display = "" if self.own.value else "none"

        # Not an accordion, whose title keyboards and screen readers do not find.
        self.own = w.ToggleButton(description=LABELS["own"], tooltip=TIPS["own"])
        self.own.value = any(getattr(self.play.setting, name) for name in names)
        self.own.observe(self._guarded(unfold), names="value")
        unfold()
        first = column("language", "haystack", "length")
        second = column("num_needles", "num_distractors", "num_values", *_TYPES)
        setting = [row(first, second), self.own, words, self.controls["depth"], self.alert]
        buttons = row(self.ask, self.another, self.stop)
        asked = [*setting, self.budget, buttons, self.status, self.answer]
        heatmap = [head("found"), self._make_grid(), w.HTML(labels.KEY)]
        # Side by side where there is room: what is moved, asked and said, and what was asked.
        side = self._style("0 20px 0 0", flex="1 1 30em", min_width="0")
        sides = [w.VBox([*asked, *heatmap], layout=side)]
        sides.append(w.VBox([head("prompt"), self.prompt], layout=side))
        style = w.HTML(labels.STYLE, layout=w.Layout(display="none"))
        box = w.VBox([style, row(*sides)], layout=w.Layout(overflow="visible"))
        box.add_class("ruler-play")
        return box

    def _make_grid(self) -> Any:
        w, lengths = self._w, self.play.lengths
        top = [w.HTML(f"<b>{length:,} tokens</b>", layout=self._style("0")) for length in lengths]
        for depth, length in itertools.product(ROWS, lengths):
            cell = w.Button(layout=w.Layout(width="auto", margin="1px"))
            cell.on_click(self._guarded(functools.partial(self._ask_cell, depth, length)))
            self.cells[depth, length] = cell
        columns = f"repeat({len(lengths)}, minmax(0, 1fr))"
        style = w.Layout(grid_template_columns=columns, max_width="44em", overflow="visible")
        grid = w.GridBox([*top, *self.cells.values()], layout=style)
        grid.add_class("ruler-grid")
        return grid

    # --- What happens ------------------------------------------------------------------------

    def _guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        """Return a callback whose errors are seen, where ipywidgets would swallow them."""

        @functools.wraps(callback)
        def call(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except Exception as error:
                self._show_error(error)

        return call

    def _show_error(self, error: Exception) -> None:
        said = html.escape(str(error))
        if not isinstance(error, RulerError):
            self.failures.append(error)
            lines = "".join(traceback.format_exception(error))
            said = (
                f"Something went wrong that should not have: {type(error).__name__}: {said}"
                f"<details><summary>Where</summary><pre>{html.escape(lines)}</pre></details>"
            )
        self.alert.value = f"<div role='alert' class='ruler-say ruler-bad'>{said}</div>"

    def _moved(self, _: Any) -> None:
        if self._quiet:
            return
        values = {name: control.value for name, control in self.controls.items()}
        with self._lock:
            self.alert.value = ""
            # A prompt that cannot be made cannot be asked; the last one stays on the page.
            self.ask.disabled = self.another.disabled = True
            if values["haystack"] == "text":
                self.own.value = True
            self.play.set(**values)
            self._settled()

    def _set(self, **changes: Any) -> None:
        with self._lock:
            self.play.set(**changes)
            self.refresh()

    def _ask_cell(self, depth: int, length: int, _: Any) -> None:
        with self._lock:
            self._set(depth=depth, length=length)
            self.ask_for(self.play.setting)

    def _forget(self, _: Any) -> None:
        with self._lock:
            del self._queue[1:]
            self._draw()

    def ask_for(self, setting: Setting) -> None:
        """Ask the model, without waiting for it; a second click on the same is ignored."""
        with self._lock:
            if setting in self.play.answers:
                self._shown = setting
            elif setting not in self._queue:
                self._queue.append(setting)
                if len(self._queue) == 1:
                    self._worker = threading.Thread(target=self._work, daemon=True)
                    self._worker.start()
            self._draw()

    def _work(self) -> None:
        """Ask one after another, in a thread of its own, so that the page goes on living."""
        asking = True
        while asking:
            setting = self._queue[0]
            try:
                self.play.ask(setting)
                self._shown = setting
            except Exception as error:
                self._show_error(error)
                with self._lock:
                    # What one question could not do, the next will not either.
                    del self._queue[1:]
            with self._lock:
                self._queue.pop(0)
                self._guarded(self._draw)()
                asking = bool(self._queue)

    # --- Drawing it --------------------------------------------------------------------------

    def refresh(self) -> None:
        """Draw the state of the playground, however it came about."""
        with self._lock:
            self._quiet = True
            try:
                for name, control in self.controls.items():
                    value = getattr(self.play.setting, name)
                    control.value = round(value) if name == "depth" else value
            finally:
                self._quiet = False
            self._settled()

    def _settled(self) -> None:
        """Draw a page whose controls stand where the state is: nothing is wrong with them."""
        self.alert.value = ""
        self.ask.disabled = self.another.disabled = False
        self._draw()

    def _draw(self) -> None:
        self._draw_prompt()
        self._draw_status()
        self._draw_answer()
        self._draw_grid()

    def _draw_prompt(self) -> None:
        prompt = self.play.prompt
        self.budget.value = prompt.spent()._repr_html_()
        self.prompt.value = (
            f"<div class='ruler-prompt' tabindex='0' role='region' aria-label='{LABELS['prompt']}'>"
            f"{prompt._repr_html_()}</div>"
        )

    def _draw_status(self) -> None:
        count = len(self._queue) - 1
        self.stop.disabled = count < 1
        if not self._queue:
            self.status.value = "<div role='status'></div>"
            return
        waiting = f"; {count} more waiting" if count else ""
        self.status.value = (
            f"<div role='status' class='ruler-say'>Asking {html.escape(self.play.name)}"
            f" {where(self._queue[0])}{waiting} …</div>"
        )

    def _draw_answer(self) -> None:
        shown = f"<div class='ruler-say'>{LABELS['not asked']}</div>"
        if self._shown:
            shown = self.play.answers[self._shown]._repr_html_()
        self.answer.value = f"<div role='status'>{shown}</div>"

    def _count_shares(
        self, kind: Setting, answers: int
    ) -> dict[tuple[int, float], tuple[int, float]]:
        """Return n and the share of needles found, by length and nearest depth of the heatmap.

        ``answers`` is the number of all answers so far: with each more the shares change.
        """
        rows = self.play.by_depth(kind).to_dict("records")
        return {(row["length"], row["depth"]): (row["n"], row["found"]) for row in rows}

    def _draw_grid(self) -> None:
        from rulerlib import plots
        from rulerlib.analysis import depth_bin

        setting = self.play.setting
        shares = self._shares(setting.kind, len(self.play.answers))
        for (depth, length), cell in self.cells.items():
            part = depth_bin(depth, len(ROWS))
            n, share = shares.get((length, part), (0, math.nan))
            hits = round(n * share) if n else 0
            asked = replace(setting, depth=depth, length=length) in self._queue
            said = "…" if asked else f"{hits} of {n}" if n else "ask"
            cell.description = f"{depth} %: {said}"
            cell.tooltip = f"Ask at depth {depth} %, {length:,} tokens"
            cell.style.button_color, cell.style.text_color = plots.shade(share)
            current = (length, part) == (setting.length, depth_bin(setting.depth, len(ROWS)))
            cell.layout.border = "2px solid #2563eb" if current else "1px solid #8888"
