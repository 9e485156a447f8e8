"""The playground: move one needle through a haystack, and ask the model for it.

``state``
    `Playground`: the setting, its prompt and all answers, without widgets;
``page``
    the same with sliders and buttons, for JupyterLab and Voila.

::

    play = Playground(model="lille", length=4096)
    play.set(depth=33, num_distractors=3)
    play.sample.input             # prompt and answer have at most play.setting.length tokens
    play.ask().right              # the model's answer, judged by rulerlib.metrics
    Page(play)                    # as the last line of a cell
"""

from rulerlib.playground.page import Page
from rulerlib.playground.state import Playground, Setting

__all__ = ["Page", "Playground", "Setting"]
