"""Reading with arithmetic, from a clone: ``inspect eval DROP/task.py -T fewshot=5 ...``."""

from inspect_ai import task

from rulerlib.export._inspect_registry import TASKS


@task
def drop(**parameters):
    """Return the family ``drop`` as a task of inspect_ai, with the parameters it has there."""
    return TASKS["drop"](**parameters)
