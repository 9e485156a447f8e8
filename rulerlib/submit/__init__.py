"""Your model in the book: a run becomes a small folder for a pull request, which anyone can check.

    rulerlib submit runs/<model>
    rulerlib submit --check book/results/submitted/<model>

``folder``
    what the folder holds, and how it is packed from a run, written and read;
``checking``
    what a folder has to fulfil, with a sentence for each thing that it does not.

A folder holds the settings and every answer. Scores and tables are made again from the answers,
and the questions with their references from the settings. That the model really said what is
written there no check can know: it has to be asked again.
"""

from rulerlib.submit.checking import check
from rulerlib.submit.folder import pack

__all__ = ["check", "pack"]
