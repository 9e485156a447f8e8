"""The playground with sliders and buttons, for JupyterLab and Voila.

Everything on the page comes from the `Playground`. Clicks are queued while the model is busy.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rulerlib import languages
from rulerlib.errors import RulerError, load_package
from rulerlib.languages import VALUE_TYPES
from rulerlib.playground.state import Playground
from rulerlib.tasks.niah import HAYSTACKS

STATIC = Path(__file__).with_name("static")


class Page:
    """A playground with sliders and buttons; the last line of a cell shows it.

    Errors are never silent: each is shown on the page.

    Parameters
    ----------
    play
        The state. Other cells may read and set it; `refresh` draws it again.

    Attributes
    ----------
    controls
        The widgets by the names of the fields of `rulerlib.playground.Setting`.

    Raises
    ------
    MissingExtraError
        If `ipywidgets` is not installed.
    """

    def __init__(self, play: Playground) -> None:
        self.play = play
        w = load_package("ipywidgets", "notebook", "The playground's page")
        lengths = [(f"{length:,}", length) for length in play.lengths]
        packs = [(languages.load(code).name, code) for code in languages.available()]
        most = max(8, play.setting.num_distractors)
        self.controls: dict[str, Any] = {
            "language": w.Dropdown(description="Language", options=packs),
            "haystack": w.Dropdown(description="Haystack", options=HAYSTACKS),
            "length": w.SelectionSlider(description="Length (tokens)", options=lengths),
            "depth": w.IntSlider(description="Depth (%)", max=100),
            "num_distractors": w.BoundedIntText(description="Distractors", max=most),
            "type_needle_k": w.Dropdown(description="Keys", options=VALUE_TYPES),
            "type_needle_v": w.Dropdown(description="Values", options=VALUE_TYPES),
            "needle": w.Text(description="Your needle"),
            "question": w.Text(description="Your question"),
            "value": w.Text(description="Right answer"),
        }
        for control in self.controls.values():
            control.continuous_update = False
            control.observe(self._guarded(self._moved), names="value")
        self.ask = w.Button(description="Ask the model", button_style="primary")
        self.another = w.Button(description="Another needle")
        self.fill = w.Button(description="Fill the heatmap")
        self.ask.on_click(self._guarded(lambda: self._click(play.ask)))
        self.another.on_click(self._guarded(lambda: self._click(play.another)))
        self.fill.on_click(self._guarded(lambda: self._click(play.ask_all)))
        # As HTML; everything from users and models is escaped.
        self.message, self.prompt, self.answer, self.figure = (w.HTML() for _ in range(4))
        buttons = w.HBox([self.ask, self.another, self.fill])
        left = w.VBox([*self.controls.values(), buttons, self.message, self.answer, self.figure])
        self.box = w.HBox([left, self.prompt])
        self.box.add_class("ruler-play")
        self._drawing = False
        self.refresh()

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        style = (STATIC / "page.css").read_text("utf-8")
        script = (STATIC / "names.js").read_text("utf-8")
        display(self.box)  # type: ignore[no-untyped-call]
        display(HTML(f"<style>{style}</style><script>{script}</script>"))  # type: ignore[no-untyped-call]

    def refresh(self) -> None:
        """Draw the state of the playground, for example after a cell has changed it."""
        self._drawing = True
        for name, control in self.controls.items():
            value = getattr(self.play.setting, name)
            control.value = round(value) if name == "depth" else value
        self._drawing = False
        self._draw()

    def _draw(self) -> None:
        """Draw everything except the controls."""
        play = self.play
        for button in (self.ask, self.another, self.fill):
            button.disabled = False
        self.message.value = ""
        self.prompt.value = (
            "<div class='ruler-prompt' tabindex='0' role='region' aria-label='The prompt'>"
            f"{play.prompt._repr_html_()}</div>"
        )
        answer = play.answers.get(play.setting)
        shown = answer._repr_html_() if answer else "<p>Not asked yet.</p>"
        self.answer.value = f"<div role='status'>{shown}</div>"
        self.figure.value = ""
        if any(setting.kind == play.setting.kind for setting in play.answers):
            from rulerlib.plots import svg

            self.figure.value = svg(play.heatmap())

    # --- Callbacks ---------------------------------------------------------------------------

    def _guarded(self, action: Callable[[], None]) -> Callable[[Any], None]:
        """Return a callback that shows its errors, which ipywidgets would swallow."""

        def call(_: Any) -> None:
            try:
                action()
            except Exception as error:
                words = html.escape(str(error))
                if not isinstance(error, RulerError):
                    words = f"Unexpected error: {type(error).__name__}: {words}"
                self.message.value = f"<div role='alert' class='ruler-bad'>{words}</div>"

        return call

    def _moved(self) -> None:
        if self._drawing:
            return
        # If the prompt cannot be built, the last one stays on the page but cannot be asked.
        for button in (self.ask, self.another, self.fill):
            button.disabled = True
        self.play.set(**{name: control.value for name, control in self.controls.items()})
        self._draw()

    def _click(self, action: Callable[[], Any]) -> None:
        self.message.value = "<div role='status'>Asking the model …</div>"
        action()
        self._draw()
