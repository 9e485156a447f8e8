"""The relation graph: chains are followed to their end, and what is no edge is found by its words.

networkx follows the same chains over what the facts say by their values, which no memory sees.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers_work import counted

from rulerlib import languages
from rulerlib.memory.relation_graph import RelationGraph, Settings
from rulerlib.memory.relations import Graph, Schemas
from rulerlib.memory.suites import Item, Recipe
from rulerlib.memory.system import Text
from rulerlib.tasks.episodes import Episode
from rulerlib.tasks.sentences import RELATIONS

CODES = ("da", "en")
DATED = {"facts": 30, "hop_depth": 4, "contradictions": "date"}
SOURCED = {"facts": 30, "hop_depth": 3, "contradictions": "source"}


@functools.cache
def made(suite: str, code: str, size: int, knobs: tuple) -> tuple[Item, ...]:
    return tuple(Recipe(suite, size, language=code, changes=dict(knobs)))


def items(suite: str, code: str = "en", size: int = 15, **knobs: Any) -> tuple[Item, ...]:
    return made(suite, code, size, tuple(knobs.items()))


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Any]:
    """Return a function that makes new graphs, which are closed at the end."""
    graphs = []

    def make(code: str = "en", **chosen: Any) -> RelationGraph:
        folder = tmp_path / str(len(graphs))
        folder.mkdir()
        graphs.append(RelationGraph(folder, Settings(**chosen), languages.load(code)))
        return graphs[-1]

    yield make
    for graph in graphs:
        graph.close()


def teach(graph: RelationGraph, *texts: str, episode: str = "a", **marks: bool) -> None:
    """Teach further facts of an episode."""
    first = len(graph.store.texts(episode))
    graph.teach(episode, [Text(text, at, **marks) for at, text in enumerate(texts, first)])


def texts_of(episode: Episode) -> list[Text]:
    return [Text.of(fact) for fact in episode.facts]


def texts(graph: RelationGraph, question: str, episode: str = "a") -> list[str]:
    return [recalled.text for recalled in graph.recall(episode, question)]


def numbers(graph: RelationGraph, item: Item) -> list[tuple[int, ...]]:
    """Return the numbers of what is recalled for each question of an item."""
    return [
        tuple(number for one in graph.recall(item.episode.id, probe.text) for number in one.numbers)
        for probe in item.episode.probes
    ]


def share(graph: RelationGraph, made: tuple[Item, ...]) -> float:
    """Teach items, and return which share of the needed facts is recalled."""
    for item in made:
        graph.teach(item.episode.id, texts_of(item.episode))
    shares = []
    for item in made:
        for probe, found in zip(item.episode.probes, numbers(graph, item), strict=True):
            if probe.needs:
                shares.append(len(set(found) & set(probe.needs)) / len(probe.needs))
    return sum(shares) / len(shares)


def held(graph: RelationGraph, episode: str = "a") -> Graph:
    return Graph(graph.store.noted(episode))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("knobs", [{}, DATED, SOURCED])
def test_chains_are_followed(fresh, code: str, knobs: dict) -> None:
    """Exactly the needed facts in the order of reasoning, as the facts told them."""
    graph = fresh(code)
    for item in items("semantic", code, **knobs):
        graph.teach(item.episode.id, texts_of(item.episode))
        (probe,) = item.episode.probes
        found = graph.recall(item.episode.id, probe.text)
        assert [each.numbers for each in found] == [(number,) for number in probe.needs]
        assert [each.text for each in found] == [fact.text for fact in item.episode.needed(probe)]
        assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)
    assert graph.counts == {"requests": 15, "hits": 15, "followed": 15}


def test_ways_without_number(fresh) -> None:
    """Where everybody teaches everybody, a chain has millions of ways; a few are gone."""
    graph, names = fresh(gate=False), [f"{one}{two}" for one in "BDFGHKLM" for two in "aeiou"]
    teach(graph, *(f"{one} teaches {two}." for one, two in itertools.permutations(names, 2)))
    phrase = "the teacher of " * 3 + names[0]
    with counted() as work:
        assert len(texts(graph, f"Who teaches {phrase}?")) == 5
    assert work.calls < 100_000


def test_a_schema_is_learnt(fresh) -> None:
    """What a person is, and a town, follows from enough facts, and nothing else is needed."""
    graph = fresh()
    for item in items("semantic", size=60):
        graph.teach(item.episode.id, texts_of(item.episode))
    learnt = Schemas(*graph.store.noted(""))
    kinds = {
        kind: {f"{name} {end}" for name, ends in RELATIONS.items()
               for end, of in zip(("of", "to"), ends, strict=True) if of == kind}
        for kind in ("person", "town", "ship", "river")
    }  # fmt: skip
    together = {frozenset(role for role in learnt._joined if learnt._kind(role) == kind)
                for kind in map(learnt._kind, learnt._joined)}  # fmt: skip
    assert together == set(map(frozenset, kinds.values()))
    person, town = Counter(["teacher of"]), Counter(["market to"])
    assert learnt.fit("home", person, town) > 0.9
    assert learnt.fit("home", town, person) < 0.1
    assert learnt.fit("unheard", person, town) == 0.5


def misfits(graph: RelationGraph) -> None:
    """Teach what people and towns are, and then that a town teaches a person."""
    people, towns = ("Ada", "Bo", "Cy", "Di", "Eb"), ("Ely", "Ware", "Hull", "York", "Bath")
    for one, other in itertools.pairwise(people):
        teach(graph, f"{one} teaches {other}.")
    for one, other in itertools.pairwise(towns):
        teach(graph, f"{one} is the market town of {other}.")
    for person, town in zip(people, towns, strict=True):
        teach(graph, f"{person} lives in {town}.")


def test_what_does_not_fit_is_parked(fresh) -> None:
    """Its words find it, and so does a question that needs it, unless completion is off."""
    odd, question = "Ely teaches York.", "Who teaches York?"
    graph, plain = fresh(), fresh(completion=False)
    for each in (graph, plain):
        misfits(each)
        edges = len(held(each).edges)
        teach(each, odd)
        assert len(held(each).edges) == edges
        assert odd in texts(each, question)
        assert texts(each, "Ely and York?")
    assert (graph.counts["followed"], plain.counts["followed"]) == (1, 0)
    # It passes with a mark, and without a gate.
    for chosen, marks in (({"gate": False}, {}), ({}, {"pinned": True})):
        other = fresh(**chosen)
        misfits(other)
        edges = len(held(other).edges)
        teach(other, odd, **marks)
        assert len(held(other).edges) == edges + 1


@pytest.mark.parametrize("knobs", [DATED, SOURCED])
def test_all_is_parked(fresh, knobs: dict) -> None:
    """Chains are followed through the texts alone, those that hold; without completion they end."""
    strict = {"fast_track": False, "gate_threshold": 1.9}
    made, graph = items("semantic", **knobs), fresh(**strict)
    assert share(graph, made) == 1
    assert not any(held(graph, item.episode.id).edges for item in made)
    assert graph.counts["followed"] == len(made)
    assert [numbers(graph, item)[0] for item in made] == [
        item.episode.probes[0].needs for item in made
    ]
    assert share(fresh(**strict, completion=False), made) < 1


def test_surprise_counts_at_the_gate(fresh) -> None:
    """What the reader did not expect is new."""
    edges = []
    for surprise in (0.0, 1.0):
        graph = fresh()
        misfits(graph)
        graph.teach("a", [Text("Ada cuts the hair of Cy.", 90, surprise=surprise)])
        edges.append(len(held(graph).edges))
    assert edges[1] == edges[0] + 1


def test_told_again(fresh) -> None:
    """One edge with the numbers of all that tell it, and the text of the best note."""
    graph = fresh()
    notes = [f"Note of {day} May: Corwin lives in Ely." for day in (3, 9, 5)]
    teach(graph, *notes, "Note of 7 May: Corwin lives in Ware.")
    assert [len(edge.told) for edge in held(graph).edges] == [3, 1]
    rule = languages.load("en").section("semantic")["notes"]["date_rule"]
    (found,) = graph.recall("a", f"{rule} Where does Corwin live?")
    assert (found.text, found.numbers) == (notes[1], (0, 1, 2))


def test_ablations_of_recall_show(fresh) -> None:
    made = items("semantic", size=20, **DATED)
    assert share(fresh(), made) == 1
    # Both ways are gone where nobody decides, so that there is no room for all.
    assert share(fresh(resolve=False), made) < 0.9
    graph = fresh(hops=2)
    assert share(graph, made) < 1
    assert graph.counts["followed"] == 0
    assert share(fresh(k=1), made) == 0.25
    # The gate and its thresholds decide how many facts become edges.
    made, edges = items("semantic", size=20, facts=40, distractors=1, contradictions="date"), []
    for chosen in ({}, {"gate": False}, {"gate_threshold": 0}, {"fast_track": False},
                   {"schema_threshold": 1.0}):  # fmt: skip
        graph = fresh(**chosen)
        for item in made:
            graph.teach(item.episode.id, texts_of(item.episode))
        edges.append(sum(len(held(graph, item.episode.id).edges) for item in made))
    assert edges[1] == edges[2] > edges[0] > edges[3] == edges[4]
