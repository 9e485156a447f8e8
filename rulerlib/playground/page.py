"""The playground with sliders and buttons, for JupyterLab and Voila.

The page holds no state but what was asked last: all else is read from the
`Playground` that it draws.
"""

from __future__ import annotations

import functools
import html
import itertools
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rulerlib import languages
from rulerlib.errors import MissingExtraError, RulerError
from rulerlib.languages import VALUE_TYPES
from rulerlib.playground.state import ROWS, Playground, Setting, where

# What the style sheet of a book or of JupyterLab sets for text is taken over: light or dark.
_STYLE = """<style>
.ruler-play { --jp-widgets-label-color: currentColor; --jp-widgets-readout-color: currentColor; }
.ruler-play, .ruler-play .widget-html-content { line-height: 1.5; }
.ruler-play .ruler-prompt { max-height: 24em; overflow: auto; }
.ruler-play .ruler-prompt:focus, .ruler-play button:focus-visible,
.ruler-play .noUi-handle:focus { outline: 3px solid #2563eb; outline-offset: 2px; }
.ruler-play button { min-height: 34px; border-radius: 5px; }
.ruler-play .ruler-grid button { padding: 0 2px; min-height: 30px; line-height: 1.2; }
.ruler-play .ruler-grid .widget-html-content { line-height: 1.2; text-align: center; }
.ruler-play .ruler-say { padding: .5em .8em; border-left: 4px solid #2563eb; background: #8882; }
.ruler-play .ruler-bad { border-left-color: #dc2626; }
.ruler-play .ruler-good { border-left-color: #16a34a; }
.ruler-play h4 { margin: .6em 0 .2em; font-size: 1.05em; }
</style>"""

# ipywidgets gives a slider's handle no name, and a widget made in Python cannot; so the page
# copies each row's label to whatever in it can be reached by keyboard and has no name yet.
_NAMES = """<script>(() => {
  const name = () => document.querySelectorAll(
    ".ruler-play [role=slider]:not([aria-label]), .ruler-play .widget-readout:not([aria-label])"
  ).forEach((part) => {
    const row = part.closest(".widget-slider, .jupyter-widgets");
    const label = row && row.querySelector("label, .widget-label");
    if (label && label.textContent.trim()) {
      part.setAttribute("aria-label", label.textContent.trim());
    }
  });
  new MutationObserver(name).observe(document.body, {childList: true, subtree: true});
  name();
})();</script>"""

LABELS = {
    "language": "Language",
    "haystack": "Haystack",
    "length": "Length (tokens)",
    "depth": "Depth (%)",
    "num_needles": "Needles",
    "num_distractors": "Distractors",
    "type_needle_k": "Keys",
    "type_needle_v": "Values",
    "needle": "Needle",
    "question": "Question",
    "prefix": "Answer begins",
    "text": "Text",
    "own": "Your own words",
    "ask": "Ask the model",
    "another": "Another needle",
    "stop": "Stop",
    "prompt": "The prompt",
    "found": "Found, by depth and length",
    "not asked": "Not asked yet.",
}
"""What stands on the page's controls and over its parts."""

TIPS = {
    "own": "Show or hide the fields for your own needle, question and text",
    "ask": "Ask the model what the prompt asks",
    "another": "Draw other keys and values, at the same place",
    "stop": "Ask none of those that wait",
}
"""What buttons say beside their labels."""

HINT = (
    "Write your own needle: put <code>{value}</code> where its value stands and"
    " <code>{key}</code> where its key stands, and both are drawn; or put your own value"
    " in braces: <i>The code of the shed is {4711}.</i> What you leave empty is the"
    " language pack's. Your own text is read if the haystack is <i>Your own text</i>."
)
"""How one's own words are written, as HTML."""

HAYSTACK_NAMES = {
    "essay": "Essays",
    "noise": "One line, again and again",
    "needle": "Other needles",
    "text": "Your own text",
}

_TYPE_NAMES = {"words": "Pairs of words", "numbers": "Numbers", "uuids": "UUIDs"}


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
    """

    play: Playground
    controls: dict[str, Any] = field(init=False)
    failures: list[BaseException] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._w = _widgets()
        self._lock = threading.RLock()
        self._waiting: deque[Setting] = deque()
        self._asking: Setting | None = None
        self._worker: threading.Thread | None = None
        self._shown: Setting | None = None
        self._quiet = False
        self._grid: dict[tuple[int, float], tuple[int, float]] = {}
        self._grid_of: tuple[Setting, int] | None = None
        self.controls = self._make_controls()
        w = self._w
        # What anyone reads on the page, as HTML; all that comes from users and models is escaped.
        self.alert, self.budget, self.prompt, self.answer, self.status = (
            w.HTML(layout=w.Layout(width="auto", margin="2px 0")) for _ in range(5)
        )
        self.ask = w.Button(description=LABELS["ask"], button_style="primary", tooltip=TIPS["ask"])
        self.another = w.Button(description=LABELS["another"], tooltip=TIPS["another"])
        self.stop = w.Button(description=LABELS["stop"], tooltip=TIPS["stop"], disabled=True)
        self.cells: dict[tuple[int, int], Any] = {}
        self.box = self._layout()
        for control in self.controls.values():
            control.observe(self._guarded(self._moved), names="value")
        self.ask.on_click(self._guarded(lambda _: self.ask_for(self.play.setting)))
        self.another.on_click(self._guarded(self._draw_another))
        self.stop.on_click(self._guarded(self._forget))
        answered = list(self.play.answers)
        self._shown = answered[-1] if answered else None
        self.refresh()

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        display(self.box)  # type: ignore[no-untyped-call]
        display(HTML(_NAMES))  # type: ignore[no-untyped-call]

    def check(self) -> None:
        """Wait until all is asked, and raise the first thing that went wrong, if any did.

        A notebook whose callbacks fail looks fine to whoever runs it without looking; with this
        as its last line it does not.
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
        worker = self._worker
        if worker is not None:
            worker.join(timeout)
            if worker.is_alive():
                raise TimeoutError(f"still asking after {timeout} seconds")

    # --- Making it ---------------------------------------------------------------------------

    def _make_controls(self) -> dict[str, Any]:
        w, setting = self._w, self.play.setting
        wide = {
            "style": {"description_width": "8.5em"},
            "layout": w.Layout(width="auto", margin="2px 0"),
        }

        def options(names: Mapping[str, str], values: Iterable[str]) -> list[tuple[str, str]]:
            return [(names[value], value) for value in values]

        haystacks = options(HAYSTACK_NAMES, HAYSTACK_NAMES)
        types = options(_TYPE_NAMES, VALUE_TYPES)
        packs = [(languages.load(code).name, code) for code in languages.available()]
        most = 8
        made = {
            "language": w.Dropdown(options=packs, **wide),
            "haystack": w.Dropdown(options=haystacks, **wide),
            "length": w.SelectionSlider(
                options=[(f"{length:,}", length) for length in self.play.lengths],
                continuous_update=False,
                **wide,
            ),
            "depth": w.IntSlider(min=0, max=100, step=1, **wide),
            "num_needles": w.BoundedIntText(min=1, max=max(most, setting.num_needles), **wide),
            "num_distractors": w.BoundedIntText(
                min=0, max=max(most, setting.num_distractors), **wide
            ),
            "type_needle_k": w.Dropdown(options=types, **wide),
            "type_needle_v": w.Dropdown(options=types, **wide),
            "needle": w.Text(continuous_update=False, **wide),
            "question": w.Text(continuous_update=False, **wide),
            "prefix": w.Text(continuous_update=False, **wide),
            "text": w.Textarea(continuous_update=False, rows=5, **wide),
        }
        for name, control in made.items():
            control.description = LABELS[name]
        self._put(made, setting)
        return made

    def _put(self, controls: Mapping[str, Any], setting: Setting) -> None:
        for name, control in controls.items():
            value = getattr(setting, name)
            control.value = round(value) if name == "depth" else value

    def _layout(self) -> Any:
        w = self._w

        def column(children: list[Any], basis: str = "290px") -> Any:
            return w.VBox(
                children,
                layout=w.Layout(
                    flex=f"1 1 {basis}", width="auto", margin="0 14px 0 0", overflow="visible"
                ),
            )

        def row(children: list[Any]) -> Any:
            return w.HBox(children, layout=w.Layout(flex_flow="row wrap", overflow="visible"))

        def head(text: str) -> Any:
            return w.HTML(f"<h4>{text}</h4>", layout=w.Layout(margin="0"))

        hint = w.HTML(HINT)
        names = ("needle", "question", "prefix", "text")
        words = w.VBox([hint, *(self.controls[name] for name in names)])

        def unfold(_: Any = None) -> None:
            words.layout.display = "" if self.own.value else "none"

        # Not an accordion, whose title keyboards and screen readers do not find.
        self.own = w.ToggleButton(
            value=any(getattr(self.play.setting, name) for name in names),
            description=LABELS["own"],
            tooltip=TIPS["own"],
        )
        self.own.observe(self._guarded(unfold), names="value")
        unfold()
        first = [self.controls[name] for name in ("language", "haystack", "length")]
        second = [self.controls[name] for name in ("num_needles", "num_distractors")]
        third = [self.controls[name] for name in ("type_needle_k", "type_needle_v")]
        grid = self._make_grid()
        box = w.VBox(
            [
                w.HTML(_STYLE, layout=w.Layout(display="none")),
                row([column(first), column([*second, *third])]),
                self.own,
                words,
                self.controls["depth"],
                self.alert,
                self.budget,
                head(LABELS["prompt"]),
                self.prompt,
                row([self.ask, self.another, self.stop]),
                self.status,
                self.answer,
                head(LABELS["found"]),
                grid,
                self._key(),
            ],
            layout=w.Layout(overflow="visible", max_width="60em"),
        )
        box.add_class("ruler-play")
        return box

    def _make_grid(self) -> Any:
        w, lengths = self._w, self.play.lengths
        top = [
            w.HTML(f"<b>{length:,} tokens</b>", layout=w.Layout(width="auto", margin="0"))
            for length in lengths
        ]
        for depth, length in itertools.product(ROWS, lengths):
            cell = w.Button(layout=w.Layout(width="auto", margin="1px"))
            cell.on_click(self._guarded(functools.partial(self._ask_cell, depth, length)))
            self.cells[depth, length] = cell
        grid = w.GridBox(
            [*top, *self.cells.values()],
            layout=w.Layout(
                grid_template_columns=f"repeat({len(lengths)}, minmax(0, 1fr))",
                max_width="44em",
                overflow="visible",
            ),
        )
        grid.add_class("ruler-grid")
        return grid

    def _key(self) -> Any:
        return self._w.HTML(
            "Each button asks at its depth and length. It then says how many of the needles"
            " that stood there were found, of how many; grey was not asked. <i>Another needle</i>,"
            " and asking again, makes the numbers larger."
        )

    # --- What happens ------------------------------------------------------------------------

    def _guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        """A callback whose errors are seen, where ipywidgets would swallow them."""

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

    def _draw_another(self, _: Any) -> None:
        with self._lock:
            self.play.set(index=self.play.setting.index + 1)
            self.refresh()

    def _ask_cell(self, depth: int, length: int, _: Any) -> None:
        with self._lock:
            self.play.set(depth=depth, length=length)
            self.refresh()
            self.ask_for(self.play.setting)

    def _forget(self, _: Any) -> None:
        with self._lock:
            self._waiting.clear()
            self._draw()

    def ask_for(self, setting: Setting) -> None:
        """Ask the model, without waiting for it; a second click on the same is ignored."""
        with self._lock:
            if setting in self.play.answers:
                self._shown = setting
            elif setting != self._asking and setting not in self._waiting:
                self._waiting.append(setting)
                if self._asking is None:
                    self._asking = self._waiting.popleft()
                    self._worker = threading.Thread(target=self._work, daemon=True)
                    self._worker.start()
            self._draw()

    def _work(self) -> None:
        """Ask one after another, in a thread of its own, so that the page goes on living."""
        while True:
            setting = self._asking
            assert setting is not None
            try:
                self.play.ask(setting)
                self._shown = setting
            except Exception as error:
                self._show_error(error)
                with self._lock:
                    # What one question could not do, the next will not either.
                    self._waiting.clear()
            with self._lock:
                self._asking = self._waiting.popleft() if self._waiting else None
                try:
                    self._draw()
                except Exception as error:
                    self._show_error(error)
                if self._asking is None:
                    return

    # --- Drawing it --------------------------------------------------------------------------

    def refresh(self) -> None:
        """Draw the state of the playground, however it came about."""
        with self._lock:
            self._quiet = True
            try:
                self._put(self.controls, self.play.setting)
            finally:
                self._quiet = False
            self._settled()

    def _settled(self) -> None:
        """The controls stand where the state is: nothing is wrong with them."""
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
        self.stop.disabled = not self._waiting
        if self._asking is None:
            self.status.value = "<div role='status'></div>"
            return
        waiting = f"; {len(self._waiting)} more waiting" if self._waiting else ""
        self.status.value = (
            f"<div role='status' class='ruler-say'>Asking {html.escape(self.play.name)}"
            f" {where(self._asking)}{waiting} …</div>"
        )

    def _draw_answer(self) -> None:
        if self._shown is None:
            self.answer.value = f"<div role='status' class='ruler-say'>{LABELS['not asked']}</div>"
            return
        shown = self.play.answers[self._shown]._repr_html_()
        self.answer.value = f"<div role='status'>{shown}</div>"

    def _found(self, kind: Setting, answers: int) -> dict[tuple[int, float], tuple[int, float]]:
        """For each length and middle of a tenth: n, and the share found; made when it changes."""
        if self._grid_of != (kind, answers):
            rows = self.play.by_depth(kind).to_dict("records")
            self._grid = {(row["length"], row["depth"]): (row["n"], row["found"]) for row in rows}
            self._grid_of = (kind, answers)
        return self._grid

    def _draw_grid(self) -> None:
        from rulerlib import plots

        setting = self.play.setting
        found = self._found(setting.kind, len(self.play.answers))
        waiting = {*self._waiting, self._asking} - {None}
        for (depth, length), cell in self.cells.items():
            n, share = found.get((length, _middle(depth)), (0, float("nan")))
            hits = round(n * share) if n else 0
            asked = replace(setting, depth=depth, length=length) in waiting
            said = "…" if asked else f"{hits} of {n}" if n else "ask"
            cell.description = f"{depth} %: {said}"
            cell.tooltip = f"Ask at depth {depth} %, {length:,} tokens"
            cell.style.button_color, cell.style.text_color = plots.shade(share)
            current = length == setting.length and _middle(depth) == _middle(setting.depth)
            cell.layout.border = "2px solid #2563eb" if current else "1px solid #8888"


def _middle(depth: float) -> float:
    """The middle of the part of the depths that a depth belongs to, as `analysis.by_depth` cuts."""
    bins = len(ROWS)
    part = depth * bins // 100 if depth <= 50 else bins - 1 - (100 - depth) * bins // 100
    return (part + 0.5) * 100 / bins


def _widgets() -> Any:
    try:
        import ipywidgets
    except ImportError as error:
        raise MissingExtraError("ipywidgets", "notebook", "The playground's page") from error
    return ipywidgets
