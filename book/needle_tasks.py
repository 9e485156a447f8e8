"""The tasks of the page "Move the needle", with prompts drawn for them.

Needles come from `rulerlib.playground`, chains from ``vt``. Three things differ there: your own
text starts at its first sentence; a haystack of needles is the beginning of the longest one; and a
chain is spread evenly from its first assignment to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rulerlib import languages
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError
from rulerlib.haystack import Needle
from rulerlib.playground import Playground, Setting
from rulerlib.playground.prompt import Samples
from rulerlib.samples import Sample

DRAWS = 20
"""Prompts drawn per language, task and kind; "another needle" cycles through them."""

KINDS = {
    "words": ("words", "numbers", "Words, and a number"),
    "uuids": ("uuids", "uuids", "UUIDs, both of them"),
}
"""Types of keys and values by name: key, value, label."""


@dataclass(frozen=True)
class Offer:
    """A task of the page.

    Attributes
    ----------
    label
        The label on the page.
    setting
        Fields of `Setting`; None for chains.
    own
        Whether users can change the wording and the haystack.
    """

    label: str
    setting: Mapping[str, Any] | None = field(default_factory=dict)
    own: bool = True

    @property
    def form(self) -> str:
        """The form of the question, for one value or for many: a part of a language pack."""
        setting = Setting(**self.setting or {})
        return "one" if setting.num_needles * setting.num_values == 1 else "many"


NEEDLES = Offer("A haystack of needles", {"haystack": "needle"}, own=False)

TASKS = {
    "one": Offer("One needle"),
    "keys": Offer("Four keys, one is asked for", {"num_distractors": 3}),
    "queries": Offer("Four keys, all are asked for", {"num_needles": 4}),
    "values": Offer("Four values of one key", {"num_values": 4}),
    "needles": NEEDLES,
    "chains": Offer("A chain of variables", None, own=False),
}
"""RULER's niah_single_2, niah_multikey_1, niah_multiquery, niah_multivalue, niah_multikey_2 and vt.

With UUIDs as keys and values the haystack of needles is niah_multikey_3.
"""


def hidden(kind: str, /, **values: Any) -> Setting:
    """Return a setting with keys and values of a kind in ``KINDS``."""
    key, value, _ = KINDS[kind]
    return Setting(type_needle_k=key, type_needle_v=value, **values)


def samples_of(play: Playground, setting: Setting) -> Samples:
    """Return the samples of a setting at the longest length that there is."""
    return play.samples_of(replace(setting, length=play.lengths[-1]))


def chains_of(play: Playground, code: str, length: int | None = None) -> Dataset:
    """Return the chains of a language at a length, by default the longest."""
    length = length or play.lengths[-1]
    return Dataset("vt", length, code, play.model.tokenizer, DRAWS, play.seed, format=play.format)


def pack(play: Playground, code: str) -> dict[str, Any]:
    """Return a language pack's wording, its haystacks with their costs, and what was drawn.

    Parameters
    ----------
    play
        Of the page's model, up to the longest length that the page has.
    code
        The language.

    Raises
    ------
    DataError
        If the tokenizer merges text across sentences, so that their costs do not add up.
    """
    language, chains = languages.load(code), chains_of(play, code)
    essays = samples_of(play, Setting(language=code)).maker.filler
    for haystack in (essays, chains.maker.filler):
        if not haystack.additive:
            raise DataError(
                f"The tokenizer of '{play.name}' merges text across sentences of '{code}', and the"
                " page 'Move the needle' adds up what sentences cost."
            )
    return {
        "units": list(zip(essays.units, essays.costs, strict=True)),
        "noise": [chains.maker.filler.units[0], chains.maker.filler.costs[0]],
        "pools": {kind: _pool(play, kind, code) for kind in KINDS},
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
            if offer.setting is None
            else {kind: _hidden(play, offer, kind, code) for kind in KINDS}
            for name, offer in TASKS.items()
        },
    }


def _task(generate: int, draws: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return a task: the tokens to generate, and the drawn prompts."""
    return {"generate": generate, "draws": [*draws]}


def _pool(play: Playground, kind: str, code: str) -> list[tuple[str, str, int]]:
    """Return the distractors of a haystack of needles: key, value and token cost."""
    maker = samples_of(play, hidden(kind, language=code, **NEEDLES.setting)).maker
    units = maker.filler.units
    rows = []
    for unit, cost in zip(units, maker.filler.costs, strict=True):
        needle, value = maker.mark([(unit, 0)])
        rows.append((needle.key, unit[value.start : value.end], cost))
    return rows


def _hidden(play: Playground, offer: Offer, kind: str, code: str) -> dict[str, Any]:
    """Return a task whose needles have keys and values, see `_draw`."""
    samples = samples_of(play, hidden(kind, language=code, **offer.setting or {}))
    return _task(
        samples.tokens_to_generate, (_draw(samples, index, offer) for index in range(DRAWS))
    )


def _draw(samples: Samples, index: int, offer: Offer) -> dict[str, Any]:
    """Return a drawn prompt's needles, and what its haystack begins with.

    Returns
    -------
    dict
        ``form`` and ``query``: which question is asked, and for what. ``needles``: key, value and
        depth (0 to 100) of each, the question asks for the first ``asked``; ``moved``: the number
        of the one that is moved. ``start``: the number of the first unit of prose, from 0; or
        ``pool``: those of the pool's units, in order.
    """
    (first, take), (last, _) = (samples.plan(index, depth) for depth in (0, 100))
    needles = [first.needles[number] for number in first.order]
    ends = {needle.text for needle in last.needles if needle.depth == 100}
    (moved,) = (
        number for number, needle in enumerate(needles) if needle.depth == 0 and needle.text in ends
    )
    made: dict[str, Any] = {
        "form": offer.form,
        "query": _query(samples, needles[: first.asked]),
        "needles": [[each.key, each.text[slice(*each.value)], each.depth] for each in needles],
        "asked": first.asked,
        "moved": moved,
    }
    haystack = samples.maker.filler
    if offer.setting == NEEDLES.setting:
        places = {unit: number for number, unit in enumerate(haystack.units)}
        return made | {"pool": [places[unit] for unit in take(samples.length).units]}
    # Once around, from where it begins.
    units = haystack.units
    lap = take(haystack.total).units
    start = next(at for at in range(len(units)) if [*units[at:], *units[:at]] == lap)
    return made | {"start": start}


def _query(samples: Samples, needles: Sequence[Needle]) -> str:
    """Return the keys in the question, joined as in a sentence."""
    language = samples.language
    assert isinstance(language, languages.Language)
    return language.join([*dict.fromkeys(needle.key or "" for needle in needles)])


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
