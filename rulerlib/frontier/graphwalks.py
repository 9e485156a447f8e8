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

After OpenAI's GraphWalks (2025, published with GPT-4.1): where to look next is only known from what
was found elsewhere, at every step. ``graphwalks_parents`` asks for the nodes from which an edge
leads to one. There may be none: then ``Final Answer: []`` is right, and the reference is ``[]``.

A question's own nodes are drawn first, step by step, with all edges that leave them on the way;
then edges that leave other nodes fill the context. So the answer is the same at every length, with
1 to ``MOST_ANSWERS`` nodes, while the graph grows. Many edges of a walk lead back to nodes that
were reached before, so that an answer that ignores "but not along fewer edges" has an F1 of about
0.6. An edge costs what its two ends cost, and names
are counted once.

The original lists the edges of a node one after the other, gives every node of a graph as many,
some of them twice or to itself, and has names of ten digits; here edges stand in any order and
their numbers differ. Its published script gives full points to an answer that shares no node with
the right one; here that is 0.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from operator import add, sub
from statistics import fmean
from typing import ClassVar

from rulerlib import frontier
from rulerlib.errors import flag, one_of, whole_number
from rulerlib.filling import Take
from rulerlib.haystack import Draft, Filling, Needle, depths_of, largest
from rulerlib.languages import Language
from rulerlib.metrics.short_answers import answer_line, f1
from rulerlib.samples import Prediction
from rulerlib.scoring import Scoring
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Checked, Task, fresh, knob
from rulerlib.tokens import Tokenizer, costs

OPERATIONS = {"bfs": 1, "parents": -1}
"""What is asked for, and whether edges are followed (1) or against their direction (-1)."""

EMPTY = "[]"
"""The reference where no node is right: a list of none, which must be said."""

# Edges of the first node of a walk, edges of each later node that lead on to new nodes, and edges
# that lead back to nodes reached before, all on average; and the parents of a node.
FIRST, ON, BACK, PARENTS = 4, 1, 1.5, 2

# The nodes that an answer has at most, and the edges of a walk at depth 1 and per further step.
MOST_ANSWERS, FIRST_EDGES, MORE_EDGES = 16, 16, 10

# The depths that are asked for at random, and the share of empty lists of parents that are kept, so
# that an empty list is right in about 2% of the questions.
DEPTHS, EMPTY_KEPT = (2, 3, 4), 1 / 8

# The most questions about one graph, and the most nodes that each brings with it.
MOST_QUERIES, MOST_NODES = 100, 64

# Names that every dataset draws; nodes that a graph has beside those of its questions.
LEAST, SPARE = MOST_QUERIES * MOST_NODES, 8

# This number of edges tells what one costs.
SAMPLED = 256

# Room to think, where the task asks for it.
REASONING = 2048

_EDGE = re.compile(r"(\w+) -> (\w+)")
_LIST = re.compile(r"\[([^\[\]]*)\]")
_AROUND = " \t\n`'\"*."


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about walks through a graph.

    Attributes
    ----------
    operation
        ``"bfs"``: the nodes at exactly ``depth`` are asked for; ``"parents"``: those from which an
        edge leads to the node.
    depth
        Steps of the walk. If None, each question asks for 2, 3 or 4 at random. ``"parents"`` has
        none.
    name_length
        Hexadecimal digits of a node's name; the original has 10.
    reasoning
        Whether the model is asked to think before its last line, and has room to.
    """

    operation: str = knob("bfs", one_of, OPERATIONS)
    depth: int | None = knob(None, whole_number, 1, 10)
    name_length: int = knob(6, whole_number, 6, 40)
    reasoning: bool = knob(False, flag)

    @property
    def mean(self) -> float:
        """The edges that leave a node of the graph, on average."""
        return ON + BACK if self.operation == "bfs" else PARENTS


class Edges:
    """What edges cost between the nodes of a pool, as a haystack.

    Attributes
    ----------
    names
        Those of the nodes.
    sources, targets
        What each name adds in tokens before the arrow, and after it.
    longest, mean
        What an edge adds at most, and on average.
    """

    # The sums are checked by tokenizing finished samples.
    seam, additive = "\n", True

    def __init__(self, names: Sequence[str], tokenizer: Tokenizer) -> None:
        before = costs([f"{name} ->" for name in names], self.seam, tokenizer)
        after = costs(names, " ", tokenizer)
        self.names = names
        self.sources = dict(zip(names, before, strict=True))
        self.targets = dict(zip(names, after, strict=True))
        self.longest = max(before) + max(after)
        self.mean = fmean(map(add, before[:SAMPLED], after[1 : SAMPLED + 1]))


# The next length mostly has the same names.
@lru_cache(4)
def _edges(seed: str, digits: int, tokenizer: Tokenizer, count: int) -> Edges:
    """Return edges between a number of nodes; the first ones are the same, whatever the count."""
    rng, names = random.Random(f"{seed} names"), dict[str, None]()
    while len(names) < count:
        names[f"{rng.randrange(16**digits):0{digits}x}"] = None
    return Edges([*names], tokenizer)


def _poisson(mean: float, rng: random.Random) -> int:
    """Return a number drawn from Poisson's distribution, by Knuth's method."""
    count, product = 0, rng.random()
    while product > math.exp(-mean):
        count, product = count + 1, product * rng.random()
    return count


def layers(children: Mapping[str, Iterable[str]], start: str, depth: int) -> list[list[str]]:
    """Return the nodes at depths 0 to ``depth`` from a start, by breadth-first search.

    >>> layers({"a": "bc", "b": "ca", "c": "d"}, "a", 2)
    [['a'], ['b', 'c'], ['d']]
    """
    reached, walked = {start}, [[start]]
    for _ in range(depth):
        ends = itertools.chain.from_iterable(children.get(node, ()) for node in walked[-1])
        walked.append([node for node in dict.fromkeys(ends) if node not in reached])
        reached.update(walked[-1])
    return walked


Walk = tuple[dict[str, list[str]], int, list[list[str]]]
"""The ends of all edges from nodes that were walked on from, the number of nodes that are drawn so
far, and the nodes at each depth."""


@dataclass(frozen=True)
class EdgeList(Knobs, Task):
    """Makes the samples of one setting of the knobs; from ``seed`` the names are drawn."""

    family = "graphwalks"
    category = FRONTIER
    answer_tokens = 128
    one_language = "a list of edges has no language of its own (language sets that of the question)"
    in_words: ClassVar = {
        "graphwalks": "nodes at a depth",
        "graphwalks_parents": "parents of a node",
    }

    @property
    def reasoning_tokens(self) -> int:
        """Tokens for the reasoning before the answer."""
        return REASONING if self.reasoning else 0

    @property
    def scoring(self) -> Scoring:
        """How answers are judged."""
        return SETS

    @property
    def most_queries(self) -> tuple[int | None, str]:
        """The largest number of questions about one context, and the reason."""
        return MOST_QUERIES, "the nodes drawn are enough for no more questions"

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        return explain(prediction, cut_off)

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the answer that follows from a prompt's text."""
        return read(prompt, language)

    section = "graphwalks"

    @cached_property
    def filler(self) -> Edges:  # type: ignore[override]  # Its units have parts.
        """What edges cost, between as many nodes as the largest graph has, or more."""
        digits = self.name_length
        edges = partial(_edges, self.seed, digits, self.budget.tokenizer)
        times = max(1, -(-self._nodes(self.budget.length, edges(LEAST)) // LEAST))
        return edges(min(times * LEAST, 16**digits // 2))

    def _nodes(self, tokens: float, edges: Edges) -> int:
        """Return the number of nodes of a graph that has a number of tokens."""
        return round(tokens / edges.mean / self.mean)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a draft for each question about a graph, and a function that fills it up."""
        # The same at every length.
        names = rng.sample(self.filler.names[:LEAST], MOST_NODES * queries)
        children, size, walks = dict[str, list[str]](), 0, list[list[list[str]]]()
        for _ in range(queries):
            children, size, walked = fresh("walk", partial(self._walk, children, size, names, rng))
            walks.append(walked)
        edges = [(node, end) for node, ends in children.items() for end in ends]
        rng.shuffle(edges)
        needles, direction = list[Needle](), OPERATIONS[self.operation]
        for edge, depth in zip(edges, depths_of(len(edges), rng), strict=True):
            # Where it leads to on a walk is its value.
            text = " -> ".join(edge[::direction])
            needles.append(Needle.holding(edge[1], text, depth, edge[0]))
        drafts = [self._ask(walked, children, edges, needles) for walked in walks]
        return drafts, partial(self._fill, children, names[:size], rng.getrandbits(64))

    def _walk(
        self, before: dict[str, list[str]], size: int, names: Sequence[str], rng: random.Random
    ) -> Walk | None:
        """Return one more walk through a graph; None if its way or its answer is too long."""
        bfs = self.operation == "bfs"
        steps = (self.depth or rng.choice(DEPTHS)) if bfs else 1
        children, walked, size = dict(before), [[names[size]]], size + 1
        edges = 0
        for step in range(steps):
            reached = list(itertools.chain(*walked))
            layer = list[str]()
            for node in walked[-1]:
                count = _poisson(PARENTS if not bfs else FIRST if step == 0 else ON, rng)
                if size + count > len(names):
                    return None
                new = names[size : size + count]
                size += count
                back = rng.choices(reached, k=_poisson(BACK, rng)) if bfs else []
                # No edge leads from a node to itself.
                children[node] = [*new, *(end for end in dict.fromkeys(back) if end != node)]
                edges += len(children[node])
                layer += new
            walked.append(layer)
        answers = walked[-1]
        if len(answers) > MOST_ANSWERS or edges > FIRST_EDGES + MORE_EDGES * (steps - 1):
            return None
        if not answers and (bfs or rng.random() >= EMPTY_KEPT):
            return None
        return children, size, walked

    def _ask(
        self, walked: list[list[str]], children: dict[str, list[str]],
        edges: list[tuple[str, str]], needles: list[Needle],
    ) -> Draft:  # fmt: skip
        """Return the draft of one question."""
        knobs, path = self, ("graphwalks", self.operation)
        (query,), *_, nodes = walked
        head, tail, prefix = self.language.question(*path, query=query, depth=len(walked) - 1)
        form = "reasoning" if knobs.reasoning else "only"
        tail += "\n" + self.language.text("graphwalks", form)
        draft = Draft(head, tail, "" if knobs.reasoning else prefix, nodes or [EMPTY], needles)
        draft.answer, draft.role = f"[{', '.join(nodes)}]", "hop"
        way = [(node, end) for node in itertools.chain(*walked[:-1]) for end in children[node]]
        # First the edges that lead to the answers, the first one to each: none skips a depth.
        leading = {end: (node, end) for node, end in reversed(way)}
        needed = dict.fromkeys([*map(leading.__getitem__, nodes), *way])
        draft.asked, place = len(needed), {edge: at for at, edge in enumerate(edges)}
        # Where no edge leads to the node, nothing that is asked for has a place.
        draft.order = [place[edge] for edge in dict.fromkeys([*needed, *edges])] if needed else []
        return draft

    def _fill(
        self, children: dict[str, list[str]], names: list[str], state: int, room: int
    ) -> Filling:
        """Return edges that leave any nodes but those that were walked on from."""
        rng, pool = random.Random(state), self.filler
        total = room + sum(map(len, children.values())) * pool.mean
        count = min(max(self._nodes(total, pool), len(names) + SPARE), len(pool.names))
        # Names have no order: those from any one on are as good as a sample.
        start = rng.randrange(len(pool.names))
        nodes = [*dict.fromkeys([*names, *pool.names[start:], *pool.names[:start]])][:count]
        starts = [node for node in nodes if node not in children]
        edges, sums = dict[tuple[str, str], None](), [0]
        while sums[-1] <= room and len(edges) < len(starts) * (len(nodes) - 1):
            some = int(max(0, room - sums[-1]) / pool.mean)
            # Some stand there already, and some cost less than the average.
            some += some // 64 + SPARE
            ends = rng.choices(starts, k=some), rng.choices(nodes, k=some)
            pairs = zip(*ends[:: OPERATIONS[self.operation]], strict=True)
            edges |= dict.fromkeys(pair for pair in pairs if pair[0] != pair[1])
            added = (pool.sources[source] + pool.targets[target] for source, target in edges)
            sums = [*itertools.accumulate(added, initial=0)]
        count = largest(sums.__getitem__, room, most=len(edges))
        units = [*map(" -> ".join, itertools.islice(edges, count))]
        return Filling(units, [*map(sub, sums[1 : count + 1], sums)], pool.seam)


# --- Answers ------------------------------------------------------------------------------------


def final_list(text: str, language: str) -> str | None:
    """Return the list that an answer ends with; None: there is none.

    An answer that begins with a list goes on from "Final Answer:" at the end of the prompt, and
    that list counts. In any other the first list after the last such label counts, in its line or
    the next: the English label or the language's, in any markup. A list is closed.

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
    """Return the nodes of an answer's list; None where it does not begin with one."""
    hit = _LIST.match(answer)
    items = (item.strip(_AROUND).lower() for item in hit[1].split(",")) if hit else ()
    return {*filter(None, items)} if hit else None


def set_f1(pred: str, references: Sequence[str]) -> float:
    """Return the F1 of an answer's nodes, 0 to 1; 1 where there are none and none are said.

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
    """Return 1 if an answer's nodes are the right ones and no others, else 0."""
    return float(nodes_of(pred) == {*references} - {EMPTY})


SETS = Scoring(
    ("set_f1", "exact_set", "recall"), primary="set_f1", ruler="set_f1", extract=final_list,
    own={"set_f1": set_f1, "exact_set": exact_set},
)  # fmt: skip
"""Sets of nodes: the original's F1, and the share of exact ones."""


def _read(prompt: str, language: Language) -> list[list[str]]:
    """Return the nodes at each depth of the walk that a prompt asks for, and one step beyond."""
    for operation, direction in OPERATIONS.items():
        if names := language.unfill(prompt, "graphwalks", operation, "template"):
            children: dict[str, list[str]] = {}
            for edge in _EDGE.findall(names["context"]):
                node, end = edge[::direction]
                children.setdefault(node, []).append(end)
            return layers(children, names["query"], int(names.get("depth", 1)) + 1)
    return []


def read(prompt: str, language: Language) -> str | None:
    """Return the list that is asked for, of the edges that the prompt has."""
    walked = _read(prompt, language)
    return f"[{', '.join(walked[-2])}]" if walked else None


def explain(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the mistake of a list of nodes, see `rulerlib.tasks.mistakes`."""
    language, text = prediction.others.get("language") or "en", prediction.pred.strip()
    nodes, prompt = nodes_of(SETS.answer(text, language)), prediction.input
    wrong, walked = (
        (nodes or set()) - {*prediction.outputs},
        _read(prompt, frontier.load(language, "graphwalks")),
    )
    return mistakes.choose(
        (nodes is None and mistakes.refused(text), "refused"),
        (nodes is None, "cut off" if cut_off else "no final line" if text else "empty"),
        (not wrong.isdisjoint(itertools.chain(*walked)), "other depth"),
        (not wrong.isdisjoint(itertools.chain(*_EDGE.findall(prompt))), "distractor"),
        (True, "wrong value" if wrong else "incomplete"),
    )


FAMILY = {"graphwalks": EdgeList(), "graphwalks_parents": EdgeList(operation="parents")}
"""Two, three or four steps, and the parents of a node."""
