"""A reader of the suite ``spatial``: it draws the map from the prose and finds the golds again.

It knows the wordings of a pack and nothing of what writes with them; its distances are those of
Floyd and Warshall.
"""

from __future__ import annotations

import functools
import itertools
import math
import re

from helpers_semantic import wording

from rulerlib.memory.episodes import Episode, Probe

wording = functools.partial(wording, name="spatial")
Graph = dict[str, dict[str, tuple[int, int]]]

MOVES = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}


class Reader:
    """Reads facts and questions of a language by the sentences that its pack has."""

    def __init__(self, code: str) -> None:
        self.pack = wording(code)
        say, ask = self.pack["say"], self.pack["ask"]
        table = self.pack["directions"]
        self.moves = {word: MOVES[name] for name, (word, _) in table.items()}
        self.letters = {MOVES[name]: letter for name, (_, letter) in table.items()}
        self.opening = [self.pattern(each) for each in say["opening"]]
        self.steps = [self.pattern(each) for each in say["step"] + say["walked"]]
        self.asks = {kind: [self.pattern(each) for each in ask[kind]] for kind in ask}

    def pattern(self, template: str) -> re.Pattern[str]:
        pieces = re.split(r"\{(\w+)\}", template)
        text = re.escape(pieces[0])
        words = {"who": r"\w+", "direction": "|".join(self.moves), "letters": r"[A-ZØÖ, ]+"}
        for slot, rest in zip(pieces[1::2], pieces[2::2], strict=True):
            text += f"(?P<{slot}_>{words.get(slot, '.+?')})" + re.escape(rest)
        return re.compile(text)

    def read(self, patterns: list[re.Pattern[str]], text: str) -> dict[str, str]:
        """Return the values of a sentence, which one wording alone fits."""
        (match,) = filter(None, (each.fullmatch(text) for each in patterns))
        return {name.removesuffix("_"): value for name, value in match.groupdict().items()}

    def told(self, episode: Episode) -> list[tuple[str, str, str]]:
        """Return all steps that the facts tell: from where, which way, to where."""
        read = (self.read(self.steps, fact.text) for fact in episode.facts[1:])
        return [(each["from"], each["direction"], each["to"]) for each in read]

    def graph(self, episode: Episode) -> Graph:
        """Return the map: the move from each place to each of its neighbours."""
        graph: Graph = {}
        for here, direction, there in self.told(episode):
            right, up = self.moves[direction]
            assert there not in graph.setdefault(here, {})
            graph[here][there] = right, up
            graph.setdefault(there, {})[here] = -right, -up
        return graph

    def golds(self, probe: Probe, graph: Graph, away: dict) -> set[str]:
        """Return the answers, in their first spelling."""
        words = self.read(self.asks[probe.kind], probe.text)
        start, goal = words["start"], words.get("goal", "")
        if probe.kind == "length":
            return {str(away[start][goal])}
        if probe.kind == "stand":
            for word in words["moves"].split(", "):
                (start,) = (
                    other for other, move in graph[start].items() if move == self.moves[word]
                )
            return {start}
        assert words["letters"].split(", ") == list(self.letters.values())
        ways = [[start]]
        for left in reversed(range(away[start][goal])):
            ways = [[*way, other] for way in ways for other in graph[way[-1]]
                    if away[other][goal] == left]  # fmt: skip
        return {self.written(way, graph) for way in ways}

    def written(self, way: list[str], graph: Graph) -> str:
        return "".join(self.letters[graph[here][there]] for here, there in itertools.pairwise(way))


def distances(graph: Graph) -> dict[str, dict[str, float]]:
    """Return how far all places are from each other, after Floyd and Warshall."""
    away = {a: dict.fromkeys(graph, math.inf) | dict.fromkeys(graph[a], 1) | {a: 0} for a in graph}
    for via, beyond in away.items():
        for row in away.values():
            if (first := row[via]) < math.inf:
                for end, rest in beyond.items():
                    if first + rest < row[end]:
                        row[end] = first + rest
    return away


@functools.cache
def reader(code: str) -> Reader:
    return Reader(code)
