"""The playground with sliders and buttons, for JupyterLab and Voila.

The page stores only the last answer; everything else comes from the `Playground`. Clicks are queued
while the model is busy.
"""

from __future__ import annotations

import functools
import html
import itertools
from collections.abc import Callable
from typing import Any

from rulerlib import languages, packages
from rulerlib.errors import RulerError
from rulerlib.playground.setting import ROWS, STATIC, TEXTS, WORDING, where
from rulerlib.playground.state import Playground

# The largest number of needles of each kind on the page.
MOST = 8

LABELS: dict[str, str] = TEXTS["labels"]


class Page:
    """A playground with sliders and buttons; the last line of a cell shows it.

    Errors are never silent. A user error is one sentence on the page; any other exception is shown,
    kept in ``failures`` and raised by `check`.

    Parameters
    ----------
    play
        The state. Other cells may read and set it; `refresh` draws it again.

    Attributes
    ----------
    controls
        The widgets by the names of the fields of `Setting`.
    cells
        The buttons of the table by depth and length.
    failures
        Unexpected exceptions.

    Raises
    ------
    MissingExtraError
        If `ipywidgets` is not installed.
    """

    def __init__(self, play: Playground) -> None:
        self.play, self.failures = play, list[Exception]()
        w = self._w = packages.load("ipywidgets", "notebook", "The playground's page")
        self._shown = next(reversed(play.answers.values()), None)
        self._quiet = False
        # The texts on the page, as HTML; everything from users and models is escaped.
        self.alert, self.budget, self.prompt, self.answer, self.status = (
            w.HTML() for _ in range(5)
        )
        self.controls = self._make_controls()
        for name, control in self.controls.items():
            control.description = LABELS[name]
            control.observe(self._guarded(self._moved), names="value")
        self.ask = self._button("ask", self._ask)
        self.ask.button_style = "primary"
        self.another = self._button("another", self._draw_another)
        self.cells: dict[tuple[int, int], Any] = {}
        self.box = self._layout()
        self.refresh()

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        display(self.box)  # type: ignore[no-untyped-call]
        script = (STATIC / "names.js").read_text("utf-8")
        display(HTML(f"<script>{script}</script>"))  # type: ignore[no-untyped-call]

    def check(self) -> None:
        """Raise the first unexpected exception, if there was one.

        Call it in the last cell of a notebook: executing the notebook then fails if a callback
        failed.

        Raises
        ------
        Exception
            The first of ``failures``.
        """
        if self.failures:
            raise self.failures[0]

    # --- Building the page; the style sheet sets the layout ----------------------------------

    def _button(self, name: str, clicked: Callable[[], None]) -> Any:
        button = self._w.Button(description=LABELS[name], tooltip=TEXTS["tips"][name])
        button.on_click(self._guarded(clicked))
        return button

    def _make_controls(self) -> dict[str, Any]:
        w, setting = self._w, self.play.setting
        packs = [(languages.load(code).name, code) for code in languages.available()]
        haystacks = [(label, name) for name, label in TEXTS["haystacks"].items()]
        types = [(label, name) for name, label in TEXTS["types"].items()]
        lengths = [(f"{length:,}", length) for length in self.play.lengths]
        controls = {
            "language": w.Dropdown(options=packs),
            "haystack": w.Dropdown(options=haystacks),
            "length": w.SelectionSlider(options=lengths, continuous_update=False),
            "depth": w.IntSlider(min=0, max=100),
        }
        for name, least in (("num_needles", 1), ("num_distractors", 0), ("num_values", 1)):
            most = max(MOST, getattr(setting, name))
            controls[name] = w.BoundedIntText(min=least, max=most)
        for name in ("type_needle_k", "type_needle_v"):
            controls[name] = w.Dropdown(options=types)
        for name in WORDING:
            controls[name] = w.Text(continuous_update=False)
        controls["text"] = w.Textarea(rows=5, continuous_update=False)
        return controls

    def _box(self, kind: str, *parts: Any) -> Any:
        """Return widgets, names of controls and HTML in a box with a class of the style sheet."""
        children = [
            self.controls.get(part) or self._w.HTML(part) if isinstance(part, str) else part
            for part in parts
        ]
        box = self._w.HBox(children) if kind == "row" else self._w.VBox(children)
        box.add_class(f"ruler-{kind}")
        return box

    def _layout(self) -> Any:
        # On wide pages, the controls and the answer are next to the prompt.
        places = self._box("column", "language", "haystack", "length")
        needles = ("num_needles", "num_distractors", "num_values", "type_needle_k", "type_needle_v")
        left = self._box(
            "side",
            self._box("row", places, self._box("column", *needles)),
            "depth",
            self.alert,
            self.budget,
            self._box("row", self.ask, self.another),
            self.status,
            self.answer,
            f"<h3>{LABELS['found']}</h3>",
            self._make_grid(),
            TEXTS["key"],
            self._box("words", f"<h3>{LABELS['own']}</h3>", TEXTS["hint"], *WORDING, "text"),
        )
        right = self._box("side", f"<h3>{LABELS['prompt']}</h3>", self.prompt)
        style = f"<style>{(STATIC / 'page.css').read_text('utf-8')}</style>"
        return self._box("play", style, self._box("row", left, right))

    def _make_grid(self) -> Any:
        w, lengths = self._w, self.play.lengths
        for depth, length in itertools.product(ROWS, lengths):
            cell = w.Button(tooltip=f"Ask at depth {depth}%, {length:,} tokens")
            ask = functools.partial(self._ask, depth=depth, length=length)
            cell.on_click(self._guarded(ask))
            self.cells[depth, length] = cell
        columns = w.Layout(grid_template_columns=f"repeat({len(lengths)}, minmax(0, 1fr))")
        top = [w.HTML(f"<b>{length:,} tokens</b>") for length in lengths]
        grid = w.GridBox([*top, *self.cells.values()], layout=columns)
        grid.add_class("ruler-grid")
        return grid

    # --- Callbacks ---------------------------------------------------------------------------

    def _guarded(self, action: Callable[[], None]) -> Callable[[Any], None]:
        """Return a callback that shows its errors, which ipywidgets would swallow."""

        def call(_: Any) -> None:
            try:
                action()
            except Exception as error:
                words = html.escape(str(error))
                if not isinstance(error, RulerError):
                    self.failures.append(error)
                    words = f"Unexpected error: {type(error).__name__}: {words}"
                self.alert.value = f"<div role='alert' class='ruler-say ruler-bad'>{words}</div>"

        return call

    def _moved(self) -> None:
        if self._quiet:
            return
        # If the prompt cannot be built, the last one stays on the page but cannot be asked.
        self.ask.disabled = self.another.disabled = True
        self.play.set(**{name: control.value for name, control in self.controls.items()})
        self._draw()

    def _draw_another(self) -> None:
        self.play.set(index=self.play.setting.index + 1)
        self.refresh()

    def _ask(self, **place: Any) -> None:
        """Ask the model, optionally at another depth and length."""
        self.play.set(**place)
        self.refresh()
        asking = f"Asking {html.escape(self.play.name)} {where(self.play.setting)} …"
        self.status.value = f"<div role='status' class='ruler-say'>{asking}</div>"
        try:
            self._shown = self.play.ask()
        finally:
            self._draw()

    # --- Drawing -----------------------------------------------------------------------------

    def refresh(self) -> None:
        """Draw the state of the playground, for example after a cell has changed it."""
        self._quiet = True
        try:
            for name, control in self.controls.items():
                value = getattr(self.play.setting, name)
                control.value = round(value) if name == "depth" else value
        finally:
            self._quiet = False
        self._draw()

    def _draw(self) -> None:
        """Draw everything except the controls."""
        prompt = self.play.prompt
        self.alert.value = ""
        self.ask.disabled = self.another.disabled = False
        self.budget.value = prompt.spent()._repr_html_()
        self.prompt.value = (
            f"<div class='ruler-prompt' tabindex='0' role='region' aria-label='{LABELS['prompt']}'>"
            f"{prompt._repr_html_()}</div>"
        )
        self.status.value = "<div role='status'></div>"
        shown = f"<div class='ruler-say'>{LABELS['not asked']}</div>"
        if self._shown:
            shown = self._shown._repr_html_()
        self.answer.value = f"<div role='status'>{shown}</div>"
        self._draw_grid()

    def _draw_grid(self) -> None:
        from rulerlib import plots
        from rulerlib.analysis import depth_bin

        setting = self.play.setting
        shares = {
            (row["depth"], row["length"]): (row["n"], row["found"])
            for row in self.play.by_depth(setting).to_dict("records")
        }
        here = depth_bin(setting.depth, len(ROWS)), setting.length
        for (depth, length), cell in self.cells.items():
            place = depth_bin(depth, len(ROWS)), length
            n, share = shares.get(place, (0, float("nan")))
            cell.description = f"{depth}%: " + (f"{round(share * n)} of {n}" if n else "ask")
            cell.style.button_color, cell.style.text_color = plots.shade(share)
            cell.layout.border = "2px solid #2563eb" if place == here else "1px solid #8888"
