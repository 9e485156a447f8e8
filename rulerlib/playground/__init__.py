"""The playground: move one needle through a haystack, and ask the model for it.

``setting``
    the values of the controls, and the page's texts;
``prompt``
    the prompt of a setting with a label for each token, and the model's answer with a verdict;
``state``
    `Playground`: the state, without widgets;
``page``
    the same with sliders and buttons, for JupyterLab and Voila.

::

    play = Playground(model="lille", length=4096)
    play.set(depth=33, num_distractors=3)
    play.prompt.sample.input      # prompt and answer have at most play.setting.length tokens
    play.ask().right              # the model's answer, judged by rulerlib.metrics
    Page(play)                    # as the last line of a cell
"""

from rulerlib.playground.page import Page
from rulerlib.playground.prompt import Answer, MarkedPrompt
from rulerlib.playground.setting import ROWS, Setting
from rulerlib.playground.state import Playground

__all__ = ["ROWS", "Answer", "MarkedPrompt", "Page", "Playground", "Setting"]
