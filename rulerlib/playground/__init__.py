"""The playground: one needle, moved through a haystack, and what the model makes of it.

`Playground` is the state and the logic, without any widget; `Page` is the same
with sliders and buttons, for JupyterLab and Voila::

    play = Playground(model="lille", length=4096)
    play.set(depth=33, num_distractors=3)
    play.prompt.sample.input      # with room for the answer play.setting.length tokens
    play.ask().right              # the model's answer, judged by rulerlib.metrics
    Page(play)                    # as the last line of a cell
"""

from rulerlib.playground.page import Page
from rulerlib.playground.state import (
    HAYSTACKS,
    PARTS,
    ROWS,
    SOURCES,
    Answer,
    Playground,
    Prompt,
    Setting,
    copied,
)

__all__ = [
    "HAYSTACKS",
    "PARTS",
    "ROWS",
    "SOURCES",
    "Answer",
    "Page",
    "Playground",
    "Prompt",
    "Setting",
    "copied",
]
