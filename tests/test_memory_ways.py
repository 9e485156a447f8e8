"""Ways: as short as networkx finds them, whatever steps say, and found sooner with coordinates."""

from __future__ import annotations

import doctest
import itertools
import math
from random import Random

import networkx
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib.memory import ways
from rulerlib.memory.ways import Map, Way, located, opposite
from rulerlib.tasks import spatial
from rulerlib.tasks.spatial import DIRECTIONS

CELLS = st.tuples(st.integers(0, 4), st.integers(0, 4))


def drawn(steps: list[tuple[int, str, int]], both: bool) -> Map:
    """The map of some steps, of which the last one holds where several lead one way."""
    found: dict[int, dict[str, Way]] = {}
    for number, (here, direction, there) in enumerate(steps):
        found.setdefault(here, {})[direction] = Way(direction, there, number)
        if both:
            back = opposite(direction)
            found.setdefault(there, {})[back] = Way(back, here, number)
    return Map({}, found, located(steps))


@st.composite
def grids(draw) -> list[tuple[int, str, int]]:
    """Steps between cells of a grid, all of which agree."""
    steps = []
    for (east, north), direction in draw(st.lists(st.tuples(CELLS, st.sampled_from([*DIRECTIONS])),
                                                  min_size=1, max_size=40)):  # fmt: skip
        right, up = DIRECTIONS[direction]
        steps.append((10 * east + north, direction, 10 * (east + right) + north + up))
    return steps


STEPS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from([*DIRECTIONS]), st.integers(0, 9)),
    min_size=1, max_size=25,
)  # fmt: skip


def graph_of(known: Map) -> networkx.DiGraph:
    return networkx.DiGraph(
        (here, way.there) for here, leads in known.ways.items() for way in leads.values()
    )


def check_plans(known: Map) -> None:
    """Check ways between all places against networkx: as short, walkable, and found sooner."""
    away = dict(networkx.all_pairs_shortest_path_length(graph_of(known)))
    places = {way.there for leads in known.ways.values() for way in leads.values()} | {*known.ways}
    for start, goal in itertools.product(sorted(places), repeat=2):
        steps, looked_at = known.plan(start, goal)
        plain, more = known.plan(start, goal, astar=False)
        if goal not in away[start]:
            assert steps is plain is None
            continue
        assert len(steps) == len(plain) == away[start][goal]
        assert known.follow(start, [each.direction for each in steps]) == steps
        assert (steps[-1].there if steps else start) == goal
        assert looked_at <= more
        if start in known.spots:
            (east, north), (far, up) = known.spots[start], known.spots[goal]
            assert abs(east - far) + abs(north - up) <= away[start][goal]


@settings(max_examples=25)
@given(grids(), st.booleans())
def test_on_a_grid_all_places_have_coordinates_and_ways_are_shortest(steps, both):
    known = drawn(steps, both)
    assert known.spots.keys() == {end for here, _, there in steps for end in (here, there)}
    for here, direction, there in steps:
        east, north = DIRECTIONS[direction]
        spot = known.spots[here]
        assert known.spots[there] == (spot[0] + east, spot[1] + north)
    check_plans(known)


@settings(max_examples=40)
@given(STEPS, st.booleans())
def test_whatever_steps_say_ways_are_shortest(steps, both):
    known = drawn(steps, both)
    check_plans(known)
    # Coordinates are there or not for all that are joined, and only where all steps agree.
    joined = networkx.Graph((here, there) for here, _, there in steps)
    for part in networkx.connected_components(joined):
        told = [each for each in steps if each[0] in part]
        agree = _agree(told)
        assert (part <= known.spots.keys()) == agree
        assert agree or not part & known.spots.keys()


def _agree(steps: list[tuple[int, str, int]]) -> bool:
    """Return whether joined places can lie on a grid, each in a spot of its own."""
    places = {end for here, _, there in steps for end in (here, there)}
    spots = {min(places): (0, 0)}
    # In each round every step carries what is known on to its other end.
    for _ in places:
        for here, direction, there in steps:
            east, north = DIRECTIONS[direction]
            if here in spots:
                spots.setdefault(there, (spots[here][0] + east, spots[here][1] + north))
            elif there in spots:
                spots[here] = spots[there][0] - east, spots[there][1] - north
    return len({*spots.values()}) == len(spots) and all(
        (spots[there][0] - spots[here][0], spots[there][1] - spots[here][1])
        == DIRECTIONS[direction]
        for here, direction, there in steps
    )


def test_ways_around_what_is_blocked_are_shortest():
    # A large grid with holes, where the way that looks nearest often is not.
    for seed in range(3):
        cells = spatial.draw(size=9, density=0.4, longest=12, rng=Random(seed))
        steps = [
            (10 * east + north, direction, 10 * (east + right) + north + up)
            for east, north in cells
            for direction, (right, up) in DIRECTIONS.items()
            if (east + right, north + up) in cells
        ]
        known = drawn(steps, both=False)
        assert len(known.spots) == len(cells)
        check_plans(known)


def test_a_search_gives_up_where_it_is_told_to():
    line = drawn([(place, "east", place + 1) for place in range(50)], both=True)
    assert line.plan(0, 50)[1] == 51
    assert line.plan(0, 50, most=50) == (None, 50)
    assert len(line.plan(0, 50, most=51)[0]) == 50
    assert line.plan(0, 0) == ([], 1)
    assert line.plan(0, 99, most=math.inf)[0] is None


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(ways).failed == 0
