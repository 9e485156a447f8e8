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

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rulerlib.languages import Language

# The list of words, whose example stands in a list of its own before it.
_FIRST = re.compile(r"(?<!\S)1\. ")

# Between two sentences; no capital letter follows the full stop of an ordinal number.
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-ZÀ-ÖØ-Þ])")


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


@lru_cache(4)
def _wordings(
    language: Language,
) -> tuple[list[tuple[re.Pattern[str], list[tuple[str, str]]]], Any]:
    """Return each wording of a question with the kinds and facts that it asks for, and of facts."""
    from rulerlib.sources.regions import PATHS, read_wording

    kinds = read_wording(language.folder / "encyclopedia.toml")["kinds"]
    questions = list[tuple[re.Pattern[str], list[tuple[str, str]]]]()
    for path in itertools.chain(*PATHS.values()):
        pairs = [(path[at], path[at + 1]) for at in range(0, len(path), 2)]
        kind, fact = pairs[-1]
        subjects = kinds[path[0]]["subject"]
        if len(pairs) > 1:
            subjects = kinds[path[0]]["facts"][path[1]]["hop"]
        for subject, ask in itertools.product(subjects, kinds[kind]["facts"][fact]["ask"]):
            text = ask.format(subject=subject.format(name="\0")).replace(",?", "?")
            text = re.escape(text.replace(",,", ",")).replace("\\\0", "\0").replace("\0", "(.+)")
            questions.append((re.compile(text), pairs))
    # A name is words with capitals, so that "On 4 July 1946 Clespegate died" is no day "4".
    name = r"[A-ZÆØÅ]\S*(?: [A-ZÆØÅ]\S*)*"
    slots = {"value": "(.+?)", "name": name, "last": name}

    def form(say: str) -> re.Pattern[str]:
        pieces = re.split(r"\{(\w+)\}", say)
        pieces[::2] = map(re.escape, pieces[::2])
        pieces[1::2] = [slots.get(slot, ".+?") for slot in pieces[1::2]]
        return re.compile("".join(pieces))

    says = {
        (kind, fact): [*map(form, wording["say"])]
        for kind, table in kinds.items()
        for fact, wording in table["facts"].items()
    }
    return questions, says


def follow(
    question: str, documents: Mapping[str, str], language: Language
) -> list[tuple[str, str, str]]:
    """Return the title, the words and the value of each step that answers a question."""
    questions, says = _wordings(language)
    ways = ((hit[1], pairs) for form, pairs in questions if (hit := form.fullmatch(question)))
    for title, pairs in ways:
        steps = list[tuple[str, str, str]]()
        for pair in pairs:
            sentences = _SENTENCE.split(documents.get(title, ""))
            trials = itertools.product(says[pair], sentences)
            hits = filter(None, (say.fullmatch(sentence) for say, sentence in trials))
            # A wording may fit that of another fact, which says more: the shortest one is meant.
            if (hit := min(hits, key=lambda one: len(one[1]), default=None)) is None:
                break
            steps.append((title, hit[0], hit[1]))
            title = hit[1]
        if len(steps) == len(pairs):
            return steps
    return []
