"""The relation graph (``sgc_rss``): facts as relations between names.

A sentence is read by the wording of its language (`rulerlib.memory.sentences`) and becomes an edge:
who teaches whom, who was in which town on which day, which place lies north of another one. A fact
that is told again supports the same edge.

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rulerlib.memory.search import WordSearch
from rulerlib.memory.sentences import ReadQuestion, reader
from rulerlib.memory.system import Recalled, System


@dataclass
class Edge:
    """A relation between two names, or an event.

    Attributes
    ----------
    values
        The words of the sentence by their role, see `rulerlib.memory.sentences.ReadFact`.
    rank
        The largest rank of its notes.
    told
        The positions of the texts that tell it; the one with the latest note comes first.
    """

    values: Mapping[str, str]
    rank: int = 0
    told: list[int] = field(default_factory=list)


class Graph(NamedTuple):
    """The edges of an episode.

    Attributes
    ----------
    by_text
        The edge that the text at a position tells.
    leading
        The relations that lead from a name, by the name and the relation.
    events
        The edges of events.
    words
        For questions that cannot be followed.
    """

    by_text: dict[int, Edge]
    leading: Mapping[tuple[str, str], list[Edge]]
    events: list[Edge]
    words: WordSearch


class RelationGraph(System):
    """A graph of the relations in an episode."""

    def build(self) -> Graph:
        """See `System`."""
        graph, edges = (
            Graph({}, defaultdict(list), [], WordSearch(self.texts)),
            dict[object, Edge](),
        )
        for place, text in enumerate(self.texts):
            read = reader(self.language).fact(text)
            if read is None or read.kind not in ("relation", "event"):
                continue
            values = {name: value for name, value in read.values.items() if name != "date"}
            key = read.relation, *sorted(values.items())
            if key not in edges:
                edges[key] = Edge(values)
                if read.kind == "event":
                    graph.events.append(edges[key])
                else:
                    graph.leading[values["subject"], read.relation].append(edges[key])
            graph.by_text[place] = edge = edges[key]
            edge.told.insert(0 if read.rank > edge.rank else len(edge.told), place)
            edge.rank = max(edge.rank, read.rank)
        return graph

    def search(self, index: Graph, question: str) -> list[Recalled]:
        """See `System`; the texts on the way to an answer come in the order of reasoning."""
        query, k = reader(self.language).question(question), self.settings.k
        places, complete, names = list[int](), False, list[str]()
        if query and query.kind == "path":
            places, names, complete = _followed(index, query)
        elif query:
            asked = {name: query.values.get(name) for name in ("who", "where", "when")}
            known = {name: value for name, value in asked.items() if value}
            events = [edge for edge in index.events if known.items() <= edge.values.items()]
            places = sorted(edge.told[0] for edge in events) if len(known) == 2 else []
            complete = bool(places)
        if not complete:
            # Texts about the names that were reached are close to the answer.
            places += index.words.search(f"{question} {' '.join(names)}", k)
        found = []
        for place in list(dict.fromkeys(places))[:k]:
            edge = index.by_text.get(place)
            numbers = sorted(self.texts[other].number for other in (edge.told if edge else [place]))
            found.append(Recalled(str(self.texts[place]), tuple(numbers)))
        return found


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
            latest = max((edge.rank for edge in edges), default=0)
            for edge in edges:
                if edge.rank == latest or not query.dated:
                    further.append((edge.values["object"], [*places, edge.told[0]]))
        if not further:
            break
        paths, hops = further, hops + 1
    passed = [place for _, places in paths for place in places]
    return passed, [name for name, _ in paths], hops == len(query.path)
