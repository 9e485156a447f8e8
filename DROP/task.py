"""DROP in inspect_ai, from a clone: ``inspect eval DROP/task.py --model openai/... -T fewshot=5``.

All questions of the validation side of DROP (Dua et al. 2019), from the Hugging Face hub, in
English, each with its passage alone and after three examples of the training side (seed 42).
``-T source=`` takes a file of DROP in their place, with ``-T fewshot=0``, because a file has no
training side. Relative paths start at the folder in which the command is typed. Everything else
that ``-T`` takes is that of ``rulerlib/drop``, which asks a fictional chronicle.
"""

from inspect_ai import task

from rulerlib.export._inspect_registry import released_drop


@task
def drop(**parameters):
    """Return DROP as a task of inspect_ai, with the parameters that ``rulerlib/drop`` has."""
    return released_drop(**parameters)
