"""The relation graph (``sgc_rss``): facts as relations between names.

A sentence is read by the wording of its language (`rulerlib.tasks.sentences`) and becomes an edge:
who teaches whom, who was in which town on which day, which place lies north of another one. What is
told again gives support to its edge.

A question is read likewise, and followed through the graph relation by relation. Where two facts
disagree, the rule decides that the question states. For a question that cannot be followed to its
end, texts are found by their words, whether they were read or not.

>>> import tempfile
>>> from rulerlib.languages import load
>>> graph = RelationGraph(tempfile.mkdtemp(), Settings(), load("en"))
>>> home, lessons = "Corwin lives in Ely.", "Halwen takes lessons from Corwin."
>>> graph.teach("a", [Text(home, 0), Text(lessons, 1)])
>>> [recalled.text for recalled in graph.recall("a", "Where does Halwen's teacher live?")]
['Halwen takes lessons from Corwin.', 'Corwin lives in Ely.']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from rulerlib.errors import LARGEST
from rulerlib.languages import Language
from rulerlib.memory.relations import VISIT, Edge, Graph, edge_of
from rulerlib.memory.search import WordSearch
from rulerlib.memory.system import Recalled, System, SystemSettings, Text
from rulerlib.tasks.sentences import ReadQuestion, reader

# The most relations that a question is followed over, and trails of a search.
_HOPS, _TRAILS = 4, 1_000


@dataclass(frozen=True)
class Settings(SystemSettings):
    """What can be set about a relation graph.

    Attributes
    ----------
    k
        How many facts are recalled at most.
    """

    k: int = 5

    limits: ClassVar = {"k": (1, LARGEST)}


class _Trail(NamedTuple):
    """How far a question was followed: to which name, over how many relations, by which facts."""

    name: str
    gone: int = 0
    facts: tuple[int, ...] = ()


class RelationGraph(System):
    """A graph of relations for each episode."""

    tables, kind = WordSearch.tables, Graph

    settings: Settings

    def __init__(self, folder: str | Path, settings: Settings, language: Language) -> None:
        super().__init__(folder, settings, language)
        self._reader, self._words = reader(language), WordSearch(self.store)

    # ------------------------------------------------------------ teaching

    def learn(self, episode: str, texts: Sequence[Text]) -> None:
        """See `System`."""
        graph, kept = self.held(episode), list[tuple[int, Text]]()
        for text in texts:
            fact, told = self.store.add(episode, text), edge_of(self._reader.fact(text))
            kept.append((fact, text))
            if told is not None:
                graph.insert(fact, told)
        self._words.add(episode, kept)
        self.store.note(episode, graph.data())

    # ------------------------------------------------------------ recalling

    def search(self, episode: str, question: str) -> list[Recalled]:
        """See `System`; the facts on the way to an answer come in the order of reasoning.

        Of a question that was followed to its end the first has a score of 1, of others less.
        """
        graph, query = self.held(episode), self._reader.question(question)
        facts, complete, names = list[int](), False, list[str]()
        if query and query.kind == "path":
            facts, complete, names = self._follow(graph, query)
        elif query:
            complete = bool(facts := self._events(graph, query))
        if not complete:
            # What tells of the names that the search came to is near the answer.
            cue = f"{question} {' '.join(names)}"
            facts += [hit.id for hit in self._words.search(episode, cue, self.settings.k)]
        kept = self.store.of(list(dict.fromkeys(facts))[: self.settings.k])
        return [
            Recalled(str(text), self._numbers(graph, text), 1 / place)
            for place, text in enumerate(kept, 1 if complete else 2)
        ]

    def _numbers(self, graph: Graph, text: Text) -> tuple[int, ...]:
        """Return the numbers of all facts that tell the same as one."""
        edge = graph.by_fact.get(text.id)
        alike = [text] if edge is None else self.store.of(edge.told)
        return tuple(sorted(other.number for other in alike))

    def _follow(self, graph: Graph, query: ReadQuestion) -> tuple[list[int], bool, list[str]]:
        """Return the facts on the way that a question asks for, and whether it was gone to the end.

        Also returns the names that the search came to.
        """
        done = self._walk(graph, query)
        gone = max(trail.gone for trail in done)
        best = [trail for trail in done if trail.gone == gone]
        facts = [fact for trail in best for fact in trail.facts]
        return facts, gone == len(query.path), [trail.name for trail in best]

    def _walk(self, graph: Graph, query: ReadQuestion) -> list[_Trail]:
        """Return how far the graph leads from the start of a question, in all ways."""
        ends, front = list[_Trail](), [_Trail(query.values["start"])]
        for relation in query.path[:_HOPS]:
            further = list[_Trail]()
            for before in front:
                edges = self._holding(graph.leading.get((before.name, relation), ()), query.rule)
                facts, gone = before.facts, before.gone + 1
                further += [_Trail(edge.object, gone, (*facts, edge.fact)) for edge in edges]
                ends += [] if edges else [before]
                if len(further) >= _TRAILS:
                    break
            front = further[:_TRAILS]
        return [*ends, *front]

    def _holding(self, edges: Sequence[Edge], rule: str | None) -> Sequence[Edge]:
        """Return edges that disagree but those that the rule overrules."""
        if rule is None:
            return edges
        most = max((edge.rank for edge in edges if edge.note == rule), default=0)
        return [edge for edge in edges if edge.note != rule or edge.rank == most]

    def _events(self, graph: Graph, query: ReadQuestion) -> list[int]:
        """Return the facts of the events that have all of who, where and when that is asked."""
        day = self._reader.day(query.values.get("when", ""))
        given = {"subject": query.values.get("who"), "object": query.values.get("where")}
        ends = {end: name for end, name in given.items() if name}
        if len(ends) + bool(day) < 2:
            return []
        facts = [
            edge.fact for edge in graph.around.get(next(iter(ends.values())), ())
            if edge.relation == VISIT and day in (0, edge.rank)
            and all(getattr(edge, end) == name for end, name in ends.items())
        ]  # fmt: skip
        return sorted(facts)[: self.settings.k]
