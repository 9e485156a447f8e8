"""The relation graph (``sgc_rss``): facts as relations between names.

A sentence is read by the wording of its language (`rulerlib.memory.reading`) and becomes an edge:
who teaches whom, or who was in which town on which day.

A question is read in the same way and followed through the graph, relation by relation. Where two
notes contradict each other, the later one counts if the question says so. If a question cannot be
followed to its end, texts are found by their words.

>>> import tempfile
>>> from rulerlib.languages import load
>>> from rulerlib.memory.system import Settings, Text
>>> graph = RelationGraph(tempfile.mkdtemp(), Settings(), load("en"))
>>> graph.teach([Text("Corwin lives in Ely.", 0), Text("Halwen takes lessons from Corwin.", 1)])
>>> [found.text for found in graph.recall("Where does Halwen's teacher live?")]
['Halwen takes lessons from Corwin.', 'Corwin lives in Ely.']
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from rulerlib.memory.reading import ReadFact, ReadQuestion, reader
from rulerlib.memory.search import WordSearch
from rulerlib.memory.system import Recalled, System, recalled

Edge = tuple[int, ReadFact]
"""A relation between two names, or an event: the position of its text, and what the text says."""


class Graph(NamedTuple):
    """The edges of an episode.

    Attributes
    ----------
    leading
        The relations that lead from a name, by the name and the relation.
    events
        The events.
    words
        For questions that cannot be followed.
    """

    leading: defaultdict[tuple[str, str], list[Edge]]
    events: list[Edge]
    words: WordSearch


class RelationGraph(System):
    """A graph of the relations in an episode."""

    def build(self) -> Graph:
        """See `System`."""
        graph = Graph(defaultdict(list), [], WordSearch(self.texts))
        for place, text in enumerate(self.texts):
            read = reader(self.language).fact(text)
            if read and read.kind == "relation":
                graph.leading[read.values["subject"], read.relation].append((place, read))
            elif read and read.kind == "event":
                graph.events.append((place, read))
        return graph

    def search(self, index: Graph, question: str) -> list[Recalled]:
        """See `System`; the texts on the way to an answer come in the order of reasoning."""
        query, k = reader(self.language).question(question), self.settings.k
        places, complete, names = list[int](), False, list[str]()
        if query and query.kind == "path":
            places, names, complete = _followed(index, query)
        elif query:
            known = {name: value for name, value in query.values.items() if name != "did"}
            if len(known) == 2:
                events = index.events
                places = [place for place, read in events if known.items() <= read.values.items()]
            complete = bool(places)
        if not complete:
            # Texts about the names that were reached are close to the answer.
            places += index.words.search(f"{question} {' '.join(names)}", k)
        return recalled([self.texts[place] for place in dict.fromkeys(places)][:k])


def _followed(graph: Graph, query: ReadQuestion) -> tuple[list[int], list[str], bool]:
    """Follow a question as far as it leads.

    Returns
    -------
    places, names, complete
        The positions of the texts on all paths, the names at their ends, and whether these are
        answers to the question.
    """
    paths, hops = [(query.values["start"], list[int]())], 0
    for relation in query.path:
        further = []
        for name, places in paths:
            edges = graph.leading.get((name, relation), [])
            latest = max((read.rank for _, read in edges), default=0)
            for place, read in edges:
                if read.rank == latest or not query.dated:
                    further.append((read.values["object"], [*places, place]))
        if not further:
            break
        paths, hops = further, hops + 1
    passed = [place for _, places in paths for place in places]
    return passed, [name for name, _ in paths], hops == len(query.path)
