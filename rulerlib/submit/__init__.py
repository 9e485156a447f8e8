"""Your model in the book: a run becomes a small folder for a pull request, which anyone can check.

    python -m rulerlib.submit runs/<model>
    python -m rulerlib.submit --check book/results/submitted/<model>
    python -m rulerlib.submit --changed origin/main
    python -m rulerlib.submit --again book/results/submitted/<model>

``folder``
    what the folder holds, how it is written, and which answers it shows in full;
``reading``
    a folder that was handed in;
``packing``
    from the answers of a run to such a folder;
``scored``
    the table of scores and the tables of means that follow from a folder;
``checking``
    what a folder has to fulfil, and a sentence for each thing that it does not;
``asking``
    the same questions put to the model again, by whoever has it.

A folder says what the model scored for each answer, shows some answers in full and holds a hash of
all. Which ones it shows follows from these hashes and scores, so that nobody chooses them. The
questions, the gold answers and the scores of those that are shown are made again by the check,
from the settings alone. That the model really said what is written there no check can know: it
has to be asked again.
"""

from rulerlib.submit.asking import again
from rulerlib.submit.checking import changed, check
from rulerlib.submit.packing import pack

__all__ = ["again", "changed", "check", "pack"]
