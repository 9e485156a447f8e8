"""The samples behind a score, as the explorer shows them: prompt, gold, answer and its judgement.

>>> about = {"model": "lille", "language": "da", "task": "vt", "length": 1024, "seed": 7}
>>> print(command(about, 3))
python -c 'from rulerlib.dataset import Dataset; print(Dataset("vt", length=1024, language="da", \
tokenizer="lille", num_samples=4, seed=7)[3].input)'
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rulerlib import tasks
from rulerlib.escaping import merged, visible
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Part, Prediction, of_role
from rulerlib.scores import base_task, knobs_of, settings_of, task_label

LONGEST = 20_000
"""Characters of an answer, or of the thinking before it, that are shown."""

END = 400
"""Characters at either end of a prompt that are shown."""

AROUND = 100
"""Characters on either side of a part that are shown."""

LONGEST_PART = 1500
"""Characters of a part that are shown; a question is always shown in full."""

MOST_PARTS = 60
"""Parts that are shown: a list of words has thousands of them."""

SHOWN = ("needle", "distractor", "hop", "document", "value", "operand", "question")
"""The roles of the parts that are marked."""

# The keys of a prediction's `others` that the page shows.
_KNOWN = ("depths", "prompt_tokens", "tokens_generated", "finished", "cut_off", "facts")

_USUAL_FORMAT = PromptFormat().settings()


def record(prediction: Prediction, judged: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that the page shows of one answer, as plain data.

    Parameters
    ----------
    prediction
        The answer, with its prompt.
    judged
        Its ``measures``, with the value of each; its ``score``, the value of the primary one; and
        ``error``, the kind of mistake.

    Returns
    -------
    dict
        ``index``, ``repeat``; ``pieces`` of the prompt, each with the character where it begins;
        ``characters`` of the whole prompt; ``parts``: role, start and end of what is marked in
        it; ``prefix``, the beginning of the answer; ``gold``; ``answer``; ``thinking``, where the
        model thought; ``known``: depths, numbers of tokens and the like; and what was judged.
        Places count characters of Unicode, as Python does.
    """
    prompt, others = prediction.input, prediction.others
    parts = shown_parts(prediction.parts)
    shown = {
        "index": prediction.index,
        "repeat": prediction.repeat,
        "characters": len(prompt),
        # Stored answers may lack their prompts.
        "pieces": [[*piece] for piece in fold(prompt, parts)] if prompt else [],
        "parts": [[part.role, part.start, part.end] for part in parts],
        "prefix": others.get("answer_prefix") or "",
        "gold": [*prediction.outputs],
        "answer": _shown(prediction.pred),
        "known": {
            name: _value(others[name]) for name in _KNOWN if others.get(name) not in (None, {})
        },
        **judged,
    }
    if prediction.truncation >= 0:
        shown["known"]["prompt_cut_to"] = prediction.truncation
    if others.get("thinking"):
        shown["thinking"] = _shown(str(others["thinking"]))
    return shown


def _shown(text: str) -> str:
    """Return what a model said with all characters visible, without the rest of a very long one."""
    left = len(text) - LONGEST
    return visible(text[:LONGEST]) + (f" [... {left:,} characters ...]" if left > 0 else "")


def settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that its page lists: what is not set is left out."""
    knobs = {name: value for name, value in knobs_of(about).items() if value is not None}
    values = {"task": task_label(about), **settings_of(about), "knobs": knobs}
    unset: tuple[Any, ...] = (None, [], {}, "")
    return {visible(name): _value(value) for name, value in values.items() if value not in unset}


def _value(value: Any) -> Any:
    """Return a number as it is, and all else that a file holds as a text that can be shown."""
    if isinstance(value, (int, float)):
        return value
    return _shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def command(about: Mapping[str, Any], index: int) -> str:
    """Return the command that prints the prompt of a sample again, or ``""``.

    The user's own texts have no command, because only their hash is known; neither do tasks from
    plug-ins. The model's own tokenizer counts the budget.
    """
    name = base_task(about["task"])
    if not tasks.find(name) or about.get("texts") or "+" in about["task"]:
        return ""
    given = {"length": about["length"], "language": about["language"], "tokenizer": about["model"]}
    given |= {"num_samples": index + 1, "seed": about.get("seed")}
    given |= {"question_language": about.get("question_language")}
    if about.get("queries_per_context") != 1:
        given["queries_per_context"] = about.get("queries_per_context")
    given |= {"room": about.get("tokens_to_generate"), "knobs": about.get("knobs") or None}
    words = [repr(name), *_words(given)]
    form = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in (about.get("format") or {}).items()
        if key in _USUAL_FORMAT and value != _USUAL_FORMAT[key]
    }
    imported = "from rulerlib.dataset import Dataset"
    if form:
        imported += "; from rulerlib.prompts import PromptFormat"
        words.append(f"format=PromptFormat({', '.join(_words(form))})")
    code = f"{imported}; print(Dataset({', '.join(words)})[{index}].input)"
    if '"' not in code:
        # A shell's single quotes hold double ones.
        code = code.replace("'", '"')
    return f"python -c {shlex.quote(code)}"


def _words(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}={value!r}" for key, value in values.items() if value is not None]


# --- Excerpts of long prompts ----------------------------------------------------------------


def shown_parts(parts: Sequence[Part]) -> list[Part]:
    """Return the parts that the page marks, by rising start: of each role the first ones."""
    chosen = [part for role in SHOWN for part in of_role(parts, role)[:MOST_PARTS]]
    # Outer parts come before those within them.
    return sorted(chosen, key=lambda part: (part.start, -part.end))


def fold(text: str, parts: Sequence[Part]) -> list[tuple[int, str]]:
    """Return the pieces of a text that are shown, each with the place where it begins.

    >>> text = "x" * 5000 + "The code is 7." + "y" * 5000
    >>> pieces = fold(text, [Part("needle", 5000, 5014)])
    >>> [(start, len(piece)) for start, piece in pieces]
    [(0, 400), (4900, 214), (9614, 400)]

    Parameters
    ----------
    text
        The prompt.
    parts
        The parts to show, with some text around them.
    """
    wanted = [(0, END), (len(text) - END, len(text))]
    for part in parts:
        end = part.end if part.role == "question" else min(part.end, part.start + LONGEST_PART)
        wanted.append((part.start - AROUND, end + AROUND))
    return [(start, text[start:end]) for start, end in merged(wanted, len(text))]
