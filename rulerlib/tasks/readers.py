"""Readers of RULER's tasks: what follows from a prompt, by the wording of its language alone.

Each takes a prompt and a language and returns the answer, or None where the prompt is none of the
family's in this language; see `rulerlib.models.reference`.

>>> from rulerlib import languages
>>> from rulerlib.dataset import Dataset
>>> sample = Dataset("vt", 600, "en", "words", num_samples=1)[0]
>>> variables(sample.input, languages.load("en")) == ", ".join(sample.outputs[:-1]) + (
...     " and " + sample.outputs[-1])
True
"""

from __future__ import annotations

import re
from collections import Counter

from rulerlib.languages import Language

# The list of words, whose example stands in a list of its own before it.
_FIRST = re.compile(r"(?<!\S)1\. ")


def needles(prompt: str, language: Language) -> str | None:
    """Return the values of the keys that are asked for, key by key, as the text has them."""
    for form in ("one", "many"):
        if (names := language.unfill(prompt, "niah", form, "template")) is None:
            continue
        hits = language.pattern("niah", "needle").finditer(names["context"])
        pairs = [(hit["key"], hit["value"]) for hit in hits]
        keys = language.split(names["query"])
        values = [value for key in keys for name, value in pairs if name == key]
        absent = language.templates.get("absent", {}).get("none", ("",))[0]
        none = absent if absent and absent in prompt[len(names["context"]) :] else ""
        return language.join(values) or none
    return None


def variables(prompt: str, language: Language) -> str | None:
    """Return the variables that have the value that is asked for, in their order."""
    names = language.unfill(prompt, "variable_tracking", "template")
    if names is None:
        return None
    chain = {names["query"]: ""}
    for name, value in re.findall(r"VAR (\w+) = (?:VAR )?(\w+)\.", names["context"]):
        if value in chain:
            chain[name] = ""
    return language.join([*chain][1:])


def common(prompt: str, language: Language) -> str | None:
    """Return the words that stand most often in the last numbered list."""
    names = language.unfill(prompt, "common_words", "template")
    if names is None:
        return None
    context = names["context"]
    *_, start = (0, *(hit.start() for hit in _FIRST.finditer(context)))
    words = Counter(re.findall(r"\d+\. (\S+)", context[start:]))
    return _ranked(words, int(names["count"]), language)


def frequent(prompt: str, language: Language) -> str | None:
    """Return the three coded words that stand most often, without the noise."""
    names = language.unfill(prompt, "frequent_words", "template")
    if names is None:
        return None
    words = Counter(names["context"].rstrip().rpartition("\n")[2].split())
    words.pop(names["noise"], None)
    return _ranked(words, 3, language)


def _ranked(words: Counter[str], count: int, language: Language) -> str:
    return language.join([word for word, _ in words.most_common(count)])
