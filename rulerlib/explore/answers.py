"""The samples behind a score, as the explorer shows them: prompt, gold, answer and its judgement.

>>> about = {"model": "lille", "language": "da", "task": "vt", "length": 1024, "seed": 7}
>>> print(command(about, 3))
python -c 'from rulerlib.dataset import Dataset; print(Dataset("vt", length=1024, language="da", \
tokenizer="lille", num_samples=4, seed=7)[3].input)'
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from rulerlib import tasks
from rulerlib.analysis import labels
from rulerlib.errors import HALF
from rulerlib.escaping import visible
from rulerlib.explore.folding import fold, shown_parts
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Prediction

LONGEST = 20_000
"""Characters of an answer, or of the thinking before it, that are shown."""

# What of a prediction's `others` the page shows.
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
    # UTF-8 has no half characters; each becomes one other, so that places stay.
    prompt = _plain(prediction.input)
    parts = shown_parts(prediction.parts)
    others = prediction.others
    made = {
        "index": prediction.index,
        "repeat": prediction.repeat,
        "characters": len(prompt),
        "pieces": [[*piece] for piece in fold(prompt, parts)],
        "parts": [[part.role, part.start, part.end] for part in parts],
        "prefix": _plain(others.get("answer_prefix") or ""),
        "gold": [_plain(output) for output in prediction.outputs],
        "answer": _shown(prediction.pred),
        "known": {
            name: _value(others[name]) for name in _KNOWN if others.get(name) not in (None, {})
        },
        **judged,
    }
    if prediction.truncation >= 0:
        made["known"]["prompt_cut_to"] = prediction.truncation
    if others.get("thinking"):
        made["thinking"] = _shown(str(others["thinking"]))
    return made


def _plain(text: str) -> str:
    return HALF.sub("\ufffd", text)


def _shown(text: str) -> str:
    """Return what a model said with all characters visible, without the rest of a very long one."""
    left = len(text) - LONGEST
    return visible(text[:LONGEST]) + (f" [... {left:,} characters ...]" if left > 0 else "")


def settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that its page lists: what is not set is left out."""
    own = {"task": labels.task(about), **labels.settings(about)}
    knobs = labels.knobs(about)
    own |= {"knobs": {name: value for name, value in knobs.items() if value is not None}}
    unset: tuple[Any, ...] = (None, [], {}, "")
    return {visible(name): _value(own[name]) for name in own if own[name] not in unset}


def _value(value: Any) -> Any:
    """Return a number as it is, and all else that a file holds as a text that can be shown."""
    if isinstance(value, (int, float)):
        return value
    return _shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def command(about: Mapping[str, Any], index: int) -> str:
    """Return the command that prints the prompt of a sample again; ``""`` where there is none.

    There is none for the user's own texts, of which only the hash is known, and for tasks of
    others. The budget is counted with the model's own tokenizer. Whatever the settings hold, it
    is one command for a shell, whose code calls `Dataset` with plain values.
    """
    name = labels.base(about["task"])
    if name not in tasks.TASKS or about.get("texts") or "+" in about["task"]:
        return ""
    given = {"length": about["length"], "language": about["language"], "tokenizer": about["model"]}
    given |= {"num_samples": index + 1, "seed": about.get("seed")}
    given |= {"question_language": about.get("question_language")}
    if about.get("queries_per_context") != 1:
        given["queries_per_context"] = about.get("queries_per_context")
    given |= {"room": about.get("tokens_to_generate"), "knobs": about.get("knobs") or None}
    words = [_literal(name), *_words(given)]
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
    return f"python -c {shlex.quote(code)}"


def _words(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}={_literal(value)}" for key, value in values.items() if value is not None]


def _literal(value: Any) -> str:
    """Return a value as Python reads it; texts in double quotes, which a shell's single ones hold.

    >>> print(_literal({"num_hops": 8, "words": "text"}))
    {"num_hops": 8, "words": "text"}
    """
    if isinstance(value, dict):
        # Whatever is nested deeper no knob holds.
        items = ((_literal(key), item) for key, item in value.items())
        pairs = (f"{key}: {_literal(item) if isinstance(item, str) else repr(item)}"
                 for key, item in items)  # fmt: skip
        return f"{{{', '.join(pairs)}}}"
    text = repr(value)
    plain = isinstance(value, str) and text[0] == "'" and '"' not in text
    return f'"{text[1:-1]}"' if plain else text
