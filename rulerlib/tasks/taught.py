"""Episodes taught in the context: their facts stand in order in a text, which is asked about.

An example of ``episodic`` (English, shortened)::

    Read the following text and answer the question after it. The facts needed for the answer are
    scattered throughout the text.
    ... In Sceldeport, Dunwin repaired a cradle on 2 January. August is the time of reckoning. ...
    It was in Chelmingwick that Corton repaired a cradle on 9 March. ...

    Question: In Chelmingwick, what did Corton repair? Write only the answer, as briefly as
    possible.
    Answer:

    outputs: ["a cradle", "cradle", "the cradle"]

The families `rulerlib.tasks.episodic`, `rulerlib.tasks.semantic` and `rulerlib.tasks.spatial` ask
here what `rulerlib.memory` asks of memories: the context is one way to remember. A context has one
episode, that of its own number, whatever the length. Its facts stand at random depths, in their
order, between sentences of essays or lines of noise; those that a question needs are needles, and
all others distractors.

The suite ``episodic_capacity`` has no task here. It asks how much a memory holds while the budget
of the prompt stays what it is; in a context, ``length`` is the budget and has to grow with the
facts, which the knob ``facts`` of ``episodic`` does as well.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import make_dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar

from rulerlib import languages
from rulerlib.errors import one_of, require
from rulerlib.filling import Budget, Take
from rulerlib.haystack import Draft, Needle, depths_of
from rulerlib.languages import Language
from rulerlib.parts import Part
from rulerlib.samples import Prediction, Sample
from rulerlib.scoring import MEMORY as SCORING
from rulerlib.tasks import mistakes
from rulerlib.tasks.episodes import Episode, Episodes, Fact, Probe, fingerprint
from rulerlib.tasks.family import MEMORY, Family, Maker, knob
from rulerlib.tasks.sentences import Reader, reader
from rulerlib.texts import END, digest

HAYSTACKS = ("essay", "noise")

T = TypeVar("T")

Answer = Callable[[str, str, Reader], str | None]
"""A function that returns what follows from a text, given a question, the text, and who reads.

None: it is no question of the suite.
"""

Make = Callable[[Any, Language, str], Episodes]
"""A function that returns what makes episodes, given knobs, a language and a seed."""

# Where a prompt may ask: lines, and what stands between the marks of a chat template.
_PIECE = re.compile(r"[^\n<>]+")

# The characters of a prompt's end in which its question stands, and of how many sentences at most,
# by a full stop and a space, one fact consists: a date has one, and what opens a walk.
_END, _SENTENCES = 1200, 3

# Values by these names are mentioned, and do not hold.
_NOT_HELD = ("old", "aside")


def in_context(knobs: type, module: str) -> type:
    """Return the knobs of a suite, and ``haystack`` beside them: what its facts stand in."""

    def check(self: Any) -> None:
        knobs.__post_init__(self)  # type: ignore[attr-defined]
        budget = getattr(self, "context_budget", None)
        allowed_values = "None, because in a context the parameter 'length' says how long it is"
        require(budget is None, "context_budget", budget, allowed_values)

    added = [("haystack", str, knob("essay", one_of, HAYSTACKS))]
    kind = make_dataclass(
        "InContext", added, bases=(knobs,), frozen=True, namespace={"__post_init__": check}
    )
    # There it stands under this name, and pickle looks for it.
    kind.__module__ = module
    return kind


class Taught(Maker):
    """Makes the samples of one setting of the knobs; from ``seed`` the episodes are drawn.

    ``make`` makes the suite's episodes, which are told with a ``section`` of a language pack.
    """

    def __init__(
        self, make: Make, section: str, knobs: Any, language: Language, budget: Budget,
        texts: tuple[str, ...], seed: str, wording: Language | None = None,
    ) -> None:  # fmt: skip
        super().__init__(knobs, language, budget, texts, seed, wording)
        self._make, self._section = make, section

    @property
    def episodes(self) -> Episodes:
        """What makes the episodes; that of a context's number is taught in it."""
        return _episodes(self._make, self.knobs, self.language, self._seed)

    @property
    def digest(self) -> str:
        """A short hash of the wording that the episodes are told and asked with."""
        question = self.language.question("memory", "context")
        return digest([fingerprint(self.language, self._section), *question])

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return ``queries`` drafts about an episode, and a function that fills a token budget."""
        limit = self.episodes.limit
        allowed_values = f"at most {(limit or 0) * queries}, for there are no more episodes"
        holds = limit is None or index < limit
        require(holds, "num_samples", index * queries + 1, allowed_values)
        episode = self.episodes.episode(index, queries)
        depths = _depths(episode.facts, rng)
        drafts = [self._draft(episode, number, depths) for number in range(queries)]
        return drafts, partial(self.haystack.draw, rng=rng)

    def _draft(self, episode: Episode, number: int, depths: Sequence[float]) -> Draft:
        """Return the draft of a question about an episode, given the depth of each fact."""
        probe = episode.probes[number]
        head, tail, prefix = self.language.question("memory", "context", query=probe.text)
        answer = _answer(episode, probe)
        holds, _ = answer or (None, "")
        about = {"taught": len(episode.facts), "needed": len(probe.needs), "question": probe.text}
        return Draft(
            head, tail, prefix, [*probe.golds],
            answer=max(probe.golds, key=len), golds=[[gold] for gold in probe.golds],
            id=f"{episode.id}/{number}", cluster=f"{self._seed} {episode.id}",
            facts={"kind": probe.kind, **about, **probe.facts},
            needles=[
                _needle(fact, depths[fact.number], answer) for fact in episode.facts
            ],
            # First the fact that says the answer, where one does.
            order=sorted(probe.needs, key=lambda need: need != holds), asked=len(probe.needs),
        )  # fmt: skip


# The next length of a task has the same episodes.
@lru_cache(4)
def _episodes(make: Make, knobs: Any, language: Language, seed: str) -> Episodes:
    return make(knobs, language, seed)


def _depths(facts: Sequence[Fact], rng: random.Random) -> list[float]:
    """Return a depth for each fact, rising, and the same one where nothing may stand between."""
    # A first fact leads, whatever it says of itself.
    leads = [number == 0 or not fact.follows for number, fact in enumerate(facts)]
    drawn = iter(depths_of(sum(leads), rng))
    depths: list[float] = []
    for lead in leads:
        depths.append(next(drawn) if lead else depths[-1])
    return depths


def _answer(episode: Episode, probe: Probe) -> tuple[int, str] | None:
    """Return the number of the last needed fact that says the answer, and the name of the value.

    None where it stands in no fact as it is: a length, a route, what is unknown.
    """
    for number in reversed(probe.needs):
        fact = episode.facts[number]
        for name in fact.values:
            if name not in _NOT_HELD and fact.value(name) == probe.golds[0]:
                return number, name
    return None


def _needle(fact: Fact, depth: float, answer: tuple[int, str] | None) -> Needle:
    """Return the needle of a fact, all of whose values are parts; the answer is its own value."""
    name = answer[1] if answer and answer[0] == fact.number else None
    within = [Part("value", *span, key) for key, span in fact.values.items() if key != name]
    return Needle(fact.text, depth, fact.values[name] if name else None, name, within)


def facts_of(record: Sample | Prediction) -> tuple[Fact, ...]:
    """Return the facts that stand in a prompt, in their order, as its parts say.

    Neither their days nor their marks are known any more: each has its number as its day.
    """
    return tuple(_read(record))


def _read(record: Sample | Prediction) -> Iterator[Fact]:
    values = iter(record.parts.of_role("value"))
    value = next(values, None)
    for number, part in enumerate(record.parts.of_role("needle", "distractor")):
        spans = dict[str, tuple[int, int]]()
        while value is not None and value.start < part.end:
            # The value that is asked for has its name on the fact itself.
            name = part.key if value.key is None else value.key
            if value.start >= part.start and name is not None:
                spans[name] = value.start - part.start, value.end - part.start
            value = next(values, None)
        yield Fact(number, record.input[part.start : part.end], number, spans)


def needed(record: Sample | Prediction) -> tuple[int, ...]:
    """Return the numbers of the facts in a prompt that its question needs, in their order."""
    hidden = record.parts.of_role("needle", "distractor")
    return tuple(number for number, part in enumerate(hidden) if part.role == "needle")


def told(text: str, read: Callable[[str], T | None]) -> list[T]:
    """Return what ``read`` makes of the facts in a text, in their order; it reads one at a time.

    >>> told("Yes. Noted. No: 1. May.", {"Yes.": 1, "No: 1. May.": 2}.get)
    [1, 2]
    """
    facts = []
    for line in text.split("\n"):
        ends = [0, *(hit.end() for hit in END.finditer(line)), len(line)]
        first = 0
        while first < len(ends) - 1:
            for last in range(first + 1, min(first + _SENTENCES + 1, len(ends))):
                if (fact := read(line[ends[first] : ends[last]].strip())) is not None:
                    facts.append(fact)
                    first = last - 1
                    break
            first += 1
    return facts


def read(prompt: str, language: Language, answer: Answer) -> str | None:
    """Return what follows from a prompt; None: it ends with no question of the suite.

    The question stands after a context (as in this family), after what a memory brought, or alone.
    """
    if not {"memory", "semantic", "episodic", "spatial"} <= language.templates.keys():
        return None
    _, label, end = re.split(
        r"\{context\}\s*|\{query\}", language.text("memory", "context", "template")
    )
    start = max(0, len(prompt) - _END)
    for piece in reversed([*_PIECE.finditer(prompt, start)]):
        question = piece[0].rpartition(label)[2].partition(end)[0].strip()
        # What stands behind its last full stop is no part of a question.
        question = question[: max(map(question.rfind, "?.")) + 1]
        if question:
            text = answer(question, prompt[: piece.start()], reader(languages.load(language.code)))
            if text is not None:
                return text
    return None


def family(
    name: str, make: Make, knobs: type, variants: Mapping[str, Mapping[str, Any]], answer: Answer
) -> Family:
    """Return the family of some suites, taught in the context.

    Parameters
    ----------
    name
        Its name, which is that of the suites' section in a language pack.
    make
        What makes their episodes.
    knobs, variants
        From `in_context`, and by the name of a task those that are not as usual.
    answer
        What follows from a text, see `read`.
    """
    return Family(
        name=name,
        knobs=knobs,
        variants={task: knobs(**changed) for task, changed in variants.items()},
        category=MEMORY,
        scoring=SCORING,
        # As question answering, enough for a date in a tokenizer that knows few words of it.
        tokens_to_generate=32,
        maker=partial(Taught, make, name),
        one_language="an episode is told and asked about in one language",
        most_queries=lambda knobs: (knobs.most_probes, "an episode has no more questions"),
        reader=partial(read, answer=answer),
        explain=mistakes.explain_taught,
        # An answer is one line, as in the shortest form that is asked for.
        stop=lambda knobs: ("\n",),
    )


def planned(text: str, language: Language, plan: str, names: dict[str, str], slot: str) -> str:
    """Return what a plan of a memory in a text says in a slot, where it is about some names."""
    hits = language.pattern("memory", "plan", plan).finditer(text)
    about = (hit for hit in hits if all(hit[name] == value for name, value in names.items()))
    return next((hit[slot] for hit in about), "")
