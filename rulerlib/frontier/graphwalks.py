"""Walks through a graph: an edge list as long as the context, and the nodes at a depth from one.

An example of ``graphwalks`` (English, shortened)::

    Below are the edges of a directed graph, one per line and in no particular order. ...
    ...
    804a34 -> 00b16e
    ...
    cf3c7f -> fd7893
    ...
    00b16e -> 804a34
    ...
    804a34 -> cf3c7f
    ...
    Question: Which nodes are at exactly depth 3 from node 00b16e in a breadth-first search?
    Write nothing but one line of the form "Final Answer: [node1, node2, node3]".

    outputs: ["fd7893"]

After OpenAI's GraphWalks (2025, published with GPT-4.1): each step depends on what the step before
found elsewhere in the text. ``graphwalks_parents`` asks for the nodes from which an edge leads to a
node. If there is none, the right answer is ``Final Answer: []``, and the reference is ``[]``.

The nodes of a question are drawn first, step by step, with all edges that leave them. Then edges
that leave other nodes fill the context. So the answer, of 1 to `MOST_ANSWERS` nodes, is the same at
every length. Many edges of a walk lead back to nodes reached before: an answer that ignores "but
not along fewer edges" has an F1 of about 0.6.

In the original, the edges of a node are listed together, every node has equally many (some twice,
some to itself), and names have ten digits. Here the order and the number of edges are random. The
original's script gives full points to an answer that shares no node with the right one; here it
gets 0.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import fmean
from typing import ClassVar

from rulerlib.errors import one_of, whole_number
from rulerlib.haystack import Draft, Filling, Haystack, Needle, Take, depths_of
from rulerlib.languages import Language
from rulerlib.metrics import Scoring
from rulerlib.metrics.short_answers import answer_line, f1
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Task, fresh
from rulerlib.tokens import costs

OPERATIONS = {"bfs": 1, "parents": -1}
"""What is asked for, and whether edges are followed (1) or against their direction (-1)."""

EMPTY = "[]"
"""The reference if no node is right: the answer must state an empty list."""

# Mean numbers of edges: from the first node of a walk and from later nodes to new nodes, and from
# each back to nodes reached before; and of the parents of a node.
FIRST, ON, BACK, PARENTS = 4, 1, 1.5, 2

# The most nodes of an answer, and the most edges of a walk at depth 1 and per further step.
MOST_ANSWERS, FIRST_EDGES, MORE_EDGES = 16, 16, 10

# The share of empty lists of parents that are kept: such a list is right in 2% of the questions.
EMPTY_KEPT = 1 / 8

# The most nodes of a walk, the number in multiples of which names are drawn, and how many nodes a
# graph has at least besides those of its walk.
MOST_NODES, NAMES, SPARE = 64, 6400, 8

_EDGE = re.compile(r"(\w+) -> (\w+)")
_LIST = re.compile(r"\[([^\[\]]*)\]")
_AROUND = " \t\n`'\"*."


def poisson(mean: float, rng: random.Random) -> int:
    """Return a number drawn from a Poisson distribution, by Knuth's method."""
    count, product = 0, rng.random()
    while product > math.exp(-mean):
        count, product = count + 1, product * rng.random()
    return count


# --- The score ----------------------------------------------------------------------------------


def final_list(text: str, language: str) -> str | None:
    """Return the list in an answer, or None.

    If the answer begins with a list, it continues "Final Answer:" at the end of the prompt, and
    this list counts. Otherwise it is the first list after the last such label, on its line or the
    next.

    >>> final_list("The parents are a and b.\\n**Final Answer:** [a, b]", "en")
    '[a, b]'
    >>> final_list("[a, b]\\n\\nQuestion: ...", "da"), final_list("They are [a, b].", "en")
    ('[a, b]', None)
    """
    start = text.strip(_AROUND)
    line = start if start.startswith("[") else answer_line(text, language) or ""
    hit = _LIST.search(line)
    return hit[0] if hit else None


def nodes_of(answer: str) -> set[str] | None:
    """Return the nodes of a list, or None if the answer does not begin with one."""
    hit = _LIST.match(answer)
    return {item.strip(_AROUND).lower() for item in hit[1].split(",")} - {""} if hit else None


def set_f1(pred: str, references: Sequence[str]) -> float:
    """Return the F1 of an answer's nodes, 0 to 1. If no node is right, only ``[]`` gets 1.

    >>> set_f1("[a, b]", ["a", "c"]), set_f1("[d]", ["a"])
    (0.5, 0.0)
    >>> set_f1("[]", [EMPTY]), set_f1("[a]", [EMPTY]), set_f1("none", [EMPTY])
    (1.0, 0.0, 0.0)
    """
    nodes, right = nodes_of(pred), {*references} - {EMPTY}
    if not nodes or not right:
        return float(nodes == right)
    return f1(len(nodes & right), len(nodes), len(right))


def exact_set(pred: str, references: Sequence[str]) -> float:
    """Return 1 if an answer has exactly the right nodes, else 0."""
    return float(nodes_of(pred) == {*references} - {EMPTY})


SETS = Scoring(
    ("set_f1", "exact_set", "recall"),
    primary="set_f1",
    ruler="set_f1",
    extract=final_list,
    own={"set_f1": set_f1, "exact_set": exact_set},
)
"""The original's F1 of sets of nodes, and the share of exact sets."""


@dataclass(frozen=True)
class GraphWalks(Task):
    """A walk through a graph.

    Attributes
    ----------
    operation
        ``"bfs"`` asks for the nodes at exactly ``depth``, ``"parents"`` for the nodes from which an
        edge leads to a node.
    depth
        Steps of the walk. If None, each question asks for 2, 3 or 4 at random. Not used for
        ``"parents"``.
    """

    operation: str = "bfs"
    depth: int | None = None

    family = "graphwalks"
    category = FRONTIER
    scoring = SETS
    answer_tokens = 128
    section = "graphwalks"
    one_language = "a list of edges has no language of its own (language sets that of the question)"
    in_words: ClassVar = {
        "graphwalks": "nodes at a depth",
        "graphwalks_parents": "parents of a node",
    }

    def __post_init__(self) -> None:
        one_of("operation", self.operation, OPERATIONS)
        if self.depth is not None:
            whole_number("depth", self.depth, 1, 10)

    # --- The generator -----------------------------------------------------------------------

    @cached_property
    def filler(self) -> Haystack:
        """A few edges, from which follows how many a graph has."""
        edges = itertools.pairwise(self._names(257))
        return Haystack([" -> ".join(edge) for edge in edges], "\n", self.budget.tokenizer)

    @cached_property
    def names(self) -> list[str]:
        """The names of at least as many nodes as the largest graph has."""
        return self._names(NAMES * max(1, math.ceil(self._nodes(self.budget.length) / NAMES)))

    def _names(self, count: int) -> list[str]:
        """Return different names; the first ones are the same for any count."""
        rng, names = random.Random(f"{self.seed} names"), dict[str, None]()
        while len(names) < count:
            names[f"{rng.randrange(16**6):06x}"] = None
        return [*names]

    def _nodes(self, tokens: float) -> int:
        """Return the number of nodes of a graph with this number of tokens."""
        edges_per_node = ON + BACK if self.operation == "bfs" else PARENTS
        return round(tokens / fmean(self.filler.costs) / edges_per_node)

    def _line(self, node: str, end: str) -> str:
        """Return the edge that leads a walk from a node to another one."""
        return " -> ".join((node, end)[:: OPERATIONS[self.operation]])

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the question about a graph, and a function that adds edges of other nodes."""
        # From the first names, so that they are the same at every length.
        names = rng.sample(self.names[:NAMES], MOST_NODES)
        children, layers = fresh("walk", partial(self._walk, names, rng))
        way = [(node, end) for node, ends in children.items() for end in ends]
        edges = [*way]
        rng.shuffle(edges)
        # The node that a walk reaches is the value.
        needles = [
            Needle.holding(end, self._line(node, end), depth, node)
            for (node, end), depth in zip(edges, depths_of(len(edges), rng), strict=True)
        ]
        # First an edge to each answer, the first on the way: it does not skip a depth.
        nodes, leading = layers[-1], {end: (node, end) for node, end in reversed(way)}
        recorded = dict.fromkeys([*(leading[node] for node in nodes), *way])
        head, tail, prefix = self.language.question(
            "graphwalks", self.operation, query=names[0], depth=len(layers) - 1
        )
        tail += "\n" + self.language.text("graphwalks", "only")
        draft = Draft(
            head,
            tail,
            prefix,
            outputs=nodes or [EMPTY],
            needles=needles,
            order=[edges.index(edge) for edge in recorded],
            asked=len(way),
            role="hop",
            answer=f"[{', '.join(nodes)}]",
        )
        return [draft], partial(self._fill, children, layers, rng.getrandbits(64))

    def _walk(
        self, names: Sequence[str], rng: random.Random
    ) -> tuple[dict[str, list[str]], list[list[str]]] | None:
        """Return the ends of the edges of each node walked from, and the nodes by depth.

        The nodes have the first of the names. None if the walk is too long or has a bad answer.
        """
        bfs = self.operation == "bfs"
        depth = (self.depth or rng.choice((2, 3, 4))) if bfs else 1
        children, layers, left = dict[str, list[str]](), [[names[0]]], names[1:]
        for step in range(depth):
            reached = [node for layer in layers for node in layer]
            layer = list[str]()
            for node in layers[-1]:
                count = poisson(PARENTS if not bfs else ON if step else FIRST, rng)
                if count > len(left):
                    return None
                new, left = left[:count], left[count:]
                back = rng.choices(reached, k=poisson(BACK, rng)) if bfs else []
                children[node] = [*new, *(end for end in dict.fromkeys(back) if end != node)]
                layer += new
            layers.append(layer)
        edges = sum(map(len, children.values()))
        if len(layer) > MOST_ANSWERS or edges > FIRST_EDGES + MORE_EDGES * (depth - 1):
            return None
        if not layer and (bfs or rng.random() >= EMPTY_KEPT):
            return None
        return children, layers

    def _fill(
        self, children: dict[str, list[str]], layers: list[list[str]], state: int, room: int
    ) -> Filling:
        """Return edges that leave other nodes than those of the walk."""
        rng, mean = random.Random(state), fmean(self.filler.costs)
        names = [node for layer in layers for node in layer]
        count = self._nodes(room + sum(map(len, children.values())) * mean)
        first = rng.randrange(len(self.names))
        others = [*self.names[first:], *self.names[:first]]
        nodes = [*dict.fromkeys([*names, *others])][: max(count, len(names) + SPARE)]
        starts = [node for node in nodes if node not in children]
        lines, used = dict[str, int](), 0
        while used <= room and len(lines) < len(starts) * (len(nodes) - 1):
            some = int(max(0, room - used) / mean)
            # A few more: some are drawn twice, and some cost less than the mean.
            some += some // 64 + SPARE
            pairs = zip(rng.choices(starts, k=some), rng.choices(nodes, k=some), strict=True)
            drawn = [self._line(*pair) for pair in pairs if pair[0] != pair[1]]
            lines.update(zip(drawn, costs(drawn, "\n", self.budget.tokenizer), strict=True))
            used = sum(lines.values())
        count = bisect.bisect_right([*itertools.accumulate(lines.values())], room)
        return Filling([*lines][:count], [*lines.values()][:count], "\n")

    # --- The answer --------------------------------------------------------------------------

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        language, text = prediction.others.get("language") or "en", prediction.pred.strip()
        nodes = nodes_of(SETS.answer(text, language))
        if nodes is None:
            kind = mistakes.opening(text, cut_off, mistakes.refused(text))
            return kind or ("cut off" if cut_off else "other")
        wrong = nodes.difference(prediction.outputs)
        if any(not wrong.isdisjoint(edge) for edge in _EDGE.findall(prediction.input)):
            return "distractor"
        return "wrong value" if wrong else "incomplete"

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the list that a prompt asks for."""
        for operation, direction in OPERATIONS.items():
            names = language.unfill(prompt, "graphwalks", operation, "template")
            if names:
                children = defaultdict[str, list[str]](list)
                for edge in _EDGE.findall(names["context"]):
                    node, end = edge[::direction]
                    children[node].append(end)
                layer, reached = [names["query"]], {names["query"]}
                for _ in range(int(names.get("depth", 1))):
                    ends = dict.fromkeys(end for node in layer for end in children[node])
                    layer = [node for node in ends if node not in reached]
                    reached.update(layer)
                return f"[{', '.join(layer)}]"
        return None


FAMILY = {"graphwalks": GraphWalks(), "graphwalks_parents": GraphWalks(operation="parents")}
"""Two, three or four steps, and the parents of a node."""
