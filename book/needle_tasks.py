"""The tasks of the page "Move the needle", with prompts drawn for them.

Needles come from `rulerlib.playground`, chains from ``vt``. Three things differ there: your own
text starts at its first sentence; a haystack of needles is the beginning of the longest one; and a
chain is spread evenly from its first assignment to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rulerlib import languages
from rulerlib.dataset import Dataset
from rulerlib.haystack import Draft, Take
from rulerlib.samples import Sample

MODEL = "lille"
"""The page's model."""

DRAWS = 20
"""Prompts drawn per language, task and kind; "another needle" cycles through them."""

KINDS = {
    "words": ("words", "numbers", "Words, and a number"),
    "uuids": ("uuids", "uuids", "UUIDs, both of them"),
}
"""Types of keys and values by name: key, value, label."""


LONGEST = 4000
"""The longest length of the page in tokens."""


@dataclass(frozen=True)
class Offer:
    """A task of the page.

    Attributes
    ----------
    label
        The label on the page.
    knobs
        Parameters of `rulerlib.tasks.niah`; None for chains.
    own
        Whether users can change the wording and the haystack.
    """

    label: str
    knobs: Mapping[str, Any] | None = field(default_factory=dict)
    own: bool = True

    @property
    def form(self) -> str:
        """The form of the question, for one value or for many: a part of a language pack."""
        return "many" if {"num_needle_q", "num_needle_v"} & {*(self.knobs or ())} else "one"


NEEDLES = Offer("A haystack of needles", {"haystack": "needle"}, own=False)

TASKS = {
    "one": Offer("One needle"),
    "keys": Offer("Four keys, one is asked for", {"num_needle_k": 4}),
    "queries": Offer("Four keys, all are asked for", {"num_needle_k": 4, "num_needle_q": 4}),
    "values": Offer("Four values of one key", {"num_needle_v": 4}),
    "needles": NEEDLES,
    "chains": Offer("A chain of variables", None, own=False),
}
"""RULER's niah_single_2, niah_multikey_1, niah_multiquery, niah_multivalue, niah_multikey_2 and vt.

With UUIDs as keys and values the haystack of needles is niah_multikey_3.
"""


def needles_of(
    offer: Offer, kind: str, code: str, depth: float = 0, length: int = LONGEST
) -> Dataset:
    """Return the samples of a task with needles; ``depth`` is that of the needle that is moved."""
    key, value, _ = KINDS[kind]
    knobs = {"type_needle_k": key, "type_needle_v": value, "depth": depth, **(offer.knobs or {})}
    return Dataset("niah_single_2", length, code, MODEL, DRAWS, knobs=knobs)


def chains_of(code: str) -> Dataset:
    """Return the chains of a language at the longest length."""
    return Dataset("vt", LONGEST, code, MODEL, DRAWS)


def pack(code: str) -> dict[str, Any]:
    """Return a language pack's wording, its haystacks with their costs, and what was drawn."""
    language, chains = languages.load(code), chains_of(code)
    essays = needles_of(TASKS["one"], "words", code).maker.filler
    return {
        "units": list(zip(essays.units, essays.costs, strict=True)),
        "noise": [chains.maker.filler.units[0], chains.maker.filler.costs[0]],
        "pools": {kind: _pool(kind, code) for kind in KINDS},
        "labels": {
            kind: {form: language.label(value, count) for form, count in (("one", 1), ("many", 2))}
            for kind, (_, value, _) in KINDS.items()
        },
        "wording": {
            form: {
                "needle": language.text("niah", "needle"),
                "template": language.text("niah", form, "template"),
                "answer_prefix": language.text("niah", form, "answer_prefix"),
            }
            for form in ("one", "many")
        },
        "tasks": {
            name: _task(chains.tokens_to_generate, map(_chain, chains))
            if offer.knobs is None
            else {kind: _hidden(offer, kind, code) for kind in KINDS}
            for name, offer in TASKS.items()
        },
    }


def _task(generate: int, draws: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return a task: the tokens to generate, and the drawn prompts."""
    return {"generate": generate, "draws": [*draws]}


def _pool(kind: str, code: str) -> list[tuple[str, str, int]]:
    """Return the distractors of a haystack of needles: key, value and token cost."""
    maker = needles_of(NEEDLES, kind, code).maker
    units = maker.filler.units
    rows = []
    for unit, cost in zip(units, maker.filler.costs, strict=True):
        needle, value = maker.mark([(unit, 0)])
        rows.append((needle.key, unit[value.start : value.end], cost))
    return rows


def _hidden(offer: Offer, kind: str, code: str) -> dict[str, Any]:
    """Return a task whose needles have keys and values, see `_draw`."""
    first, last = (needles_of(offer, kind, code, depth) for depth in (0, 100))
    draws = (_draw(first, last, index, offer) for index in range(DRAWS))
    return _task(first.tokens_to_generate, draws)


def _planned(samples: Dataset, index: int) -> tuple[Draft, Take]:
    """Return the draft of a sample, and a function that fills a token budget."""
    (draft,), take = samples.maker.plan(index, samples._rng(index), 1)
    return draft, take


def _draw(samples: Dataset, others: Dataset, index: int, offer: Offer) -> dict[str, Any]:
    """Return a drawn prompt's needles, and what its haystack begins with.

    Parameters
    ----------
    samples, others
        The samples with the moved needle at the start, and at the end.

    Returns
    -------
    dict
        ``form`` and ``query``: which question is asked, and for what. ``needles``: key, value and
        depth (0 to 100) of each, the question asks for the first ``asked``; ``moved``: the number
        of the one that is moved. ``start``: the number of the first unit of prose, from 0; or
        ``pool``: those of the pool's units, in order.
    """
    (first, take), (last, _) = _planned(samples, index), _planned(others, index)
    needles = [first.needles[number] for number in first.order]
    ends = {needle.text for needle in last.needles if needle.depth == 100}
    (moved,) = (
        number for number, needle in enumerate(needles) if needle.depth == 0 and needle.text in ends
    )
    keys = dict.fromkeys(needle.key for needle in needles[: first.asked])
    made: dict[str, Any] = {
        "form": offer.form,
        "query": samples.language.join([*keys]),
        "needles": [[each.key, each.text[slice(*each.value)], each.depth] for each in needles],
        "asked": first.asked,
        "moved": moved,
    }
    haystack = samples.maker.filler
    if offer is NEEDLES:
        places = {unit: number for number, unit in enumerate(haystack.units)}
        return made | {"pool": [places[unit] for unit in take(samples.length).units]}
    # Once around, from where it begins.
    units = haystack.units
    lap = take(haystack.total).units
    start = next(at for at in range(len(units)) if [*units[at:], *units[:at]] == lap)
    return made | {"start": start}


def _chain(sample: Sample) -> dict[str, Any]:
    """Return a drawn chain: the prompt around it, and its assignments, each after its variable."""
    (context,), (question,) = sample.parts_of("context"), sample.parts_of("question")
    text = sample.input
    return {
        "head": text[: context.start],
        "tail": text[question.start :],
        "prefix": sample.answer_prefix,
        "assignments": [[hop.value, text[hop.start : hop.end]] for hop in sample.parts_of("hop")],
    }
