"""Findings: whatever the numbers are, each sentence about them is true.

The sentences are taken apart again, and every claim in them is held against the counts that the
table was made from, with intervals by SciPy.
"""

from __future__ import annotations

import functools
import itertools
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
stats = pytest.importorskip("scipy.stats")

from rulerlib import plots  # noqa: E402
from rulerlib.labels import percent, ranked, thousands  # noqa: E402
from rulerlib.plots.base import guide_of  # noqa: E402
from rulerlib.tasks.mistakes import KINDS  # noqa: E402

LENGTHS = (512, 1000, 1024, 2048, 4096, 8192)

# Right answers of n: any, and often all or none.
counts = st.integers(1, 60).flatmap(
    lambda n: st.tuples(st.just(n), st.one_of(st.integers(0, n), st.sampled_from([0, n])))
)
lines = st.dictionaries(st.sampled_from(LENGTHS), counts, min_size=1)


@functools.cache
def interval(n, right):
    found = stats.binomtest(right, n).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def rows_of(line, **names):
    rows = []
    for length, (n, right) in sorted(line.items()):
        low, high = interval(n, right)
        rows.append({**names, "length": length, "n": n, "mean": right / n, "low": low,
                     "high": high, "measure": "all_match", "category": "other"})  # fmt: skip
    return rows


def apart(lower, higher):
    """Whether the interval of the first lies below that of the second."""
    return interval(*lower)[1] < interval(*higher)[0]


def number(text):
    """The share that a text like ``99.6 %`` stands for, and by how much it may be off."""
    return float(text) / 100, 0.0005001 if "." in text else 0.005001


def agrees(said, count):
    n, right = count
    share, off = number(said)
    return abs(share - right / n) <= off


SHARE = r"(\d+(?:\.\d)?) %"


def check_course(said, line):
    """Hold every claim about a line against its counts."""
    by_name = {thousands(length): line[length] for length in sorted(line)}
    names, values = list(by_name), list(by_name.values())
    for share, name in re.findall(rf"{SHARE} at (\w+)", said):
        assert agrees(share, by_name[name]), said
    if len(line) == 1:
        assert re.fullmatch(rf"is {SHARE} at \w+, interval \d+ to \d+ %", said)
        return
    falls = [(a, b) for a, b in itertools.combinations(values, 2) if apart(b, a)]
    rises = [(a, b) for a, b in itertools.combinations(values, 2) if apart(a, b)]
    mark = rf"{SHARE} at (\w+)"
    moves = re.fullmatch(rf"(falls|rises) clearly, from {mark} to {mark}(?: \({mark}\))?", said)
    assert (moves and moves[1]) == ("falls" if falls else "rises" if rises else None), said
    if moves:
        first, second = names.index(moves[3]), names.index(moves[5])
        assert (values[first], values[second]) in (falls or rises)
        # It is the first that falls so.
        earlier = itertools.combinations(values[:second], 2)
        assert not any(pair in (falls or rises) for pair in earlier)
        if falls:
            assert (moves[7] or moves[5]) == names[-1]
        return
    shares = re.match(rf"(?:is|lies between) {SHARE}(?: and {SHARE})?, and no two lengths", said)
    wanted = [end(right / n for n, right in values) for end in (min, max)]
    for text, share in zip((shares[1], shares[2] or shares[1]), wanted, strict=True):
        assert abs(float(text) / 100 - share) <= 0.0011
    reach = [interval(*count) for count in values]
    ends = map(int, re.search(r"intervals from (\d+) to (\d+) %\)$", said).groups())
    for end, share in zip(ends, (min(reach)[0], max(high for _, high in reach)), strict=True):
        assert abs(end - 100 * share) < 0.51


@given(st.lists(lines, min_size=1, max_size=7))
@example([{512: (20, 20), 1024: (20, 19), 2048: (20, 2), 4096: (20, 0)}])
@example([{512: (20, 0), 1024: (20, 20), 2048: (20, 0), 4096: (20, 20)}])
@example([{512: (1, 1), 1024: (1, 0)}, {512: (1000, 999), 1024: (1000, 998)}])
@settings(deadline=None)
def test_the_sentence_on_curves_is_true_of_each_line(parts):
    table = pd.DataFrame([
        row for number, line in enumerate(parts) for row in rows_of(line, task=f"t{number}")
    ]).sample(frac=1, random_state=1).sort_values("task")  # fmt: skip
    said = plots.curves_in_words(table)
    if len(parts) <= 4:
        clauses = re.findall(r"(t\d) (.+?) \(n = ([\d,]+)(?: to ([\d,]+))?\)\.(?:\n|$)", said)
        assert [name for name, *_ in clauses] == [f"t{number}" for number in range(len(parts))]
        for (_, clause, least, most), line in zip(clauses, parts, strict=True):
            check_course(clause, line)
            known = sorted({n for n, _ in line.values()})
            assert (least, most or least) == (f"{known[0]:,}", f"{known[-1]:,}")
        return
    sorts = {
        "with a clear fall as the text grows": lambda line: any(
            apart(b, a) for a, b in itertools.combinations(ordered(line), 2)
        ),
        "with no clear difference between lengths": lambda line: (
            len(line) > 1
            and not any(apart(a, b) for a, b in itertools.permutations(ordered(line), 2))
        ),
        "asked at one length alone": lambda line: len(line) == 1,
    }
    for sort, holds in sorts.items():
        wanted = {f"t{number}" for number, line in enumerate(parts) if holds(line)}
        named = re.search(rf"(\d+) {sort} \(([^)]*)\)", said)
        assert (set(re.findall(r"t\d", named[2])) if named else set()) == wanted
        assert not named or int(named[1]) == len(wanted)
    common = {length for length in LENGTHS if all(length in line for line in parts)}
    if not common:
        assert said.endswith("\nNo length has all tasks, so they are not ranked.")
        return
    shares = {
        f"t{at}": line[max(common)][1] / line[max(common)][0] for at, line in enumerate(parts)
    }
    assert said.endswith(f"\nAt {thousands(max(common))}, {ranked(shares, 'tasks')}.")


def ordered(line):
    return [line[length] for length in sorted(line)]


@given(st.dictionaries(st.sampled_from("abcdefg"), counts, min_size=1))
def test_only_what_a_table_shows_apart_is_ranked(right):
    """Shares are held against each other to a tenth of a percent."""
    shares = {name: hits / n for name, (n, hits) in right.items()}
    said = ranked(shares, "tasks")
    shown = {name: percent(share, 1) for name, share in shares.items()}
    if len(set(shown.values())) == 1:
        assert re.fullmatch(rf"(\w has|both tasks have|all \d tasks have) {SHARE}", said)
        return
    highest, most, lowest, least = re.fullmatch(
        rf"(.+?) highest with {SHARE}, (.+?) lowest with {SHARE}", said
    ).groups()
    assert float(most) > float(least), "two numbers that look alike are not ranked"
    for names, share, end in ((highest, most, max), (lowest, least, min)):
        alike = [name for name in shares if shown[name] == percent(end(shares.values()), 1)]
        assert re.findall(r"\b[a-g]\b", names) == alike[:4]
        assert ("more" in names) == (len(alike) > 4)
        assert abs(number(share)[0] - end(shares.values())) <= number(share)[1]


@given(st.lists(lines, min_size=1, max_size=6), st.integers(1, 99))
@settings(deadline=None, max_examples=60)
def test_the_sentence_on_averages_names_every_side_of_the_threshold_and_every_gap(parts, threshold):
    """Of models that were asked all tasks at some lengths, and only some of them at others."""
    asked = {length for line in parts for length in line}
    rows = [row for at, line in enumerate(parts) for row in rows_of(line, model=f"m{at}")]
    gaps = [
        {"model": f"m{at}", "length": length, "n": 1}
        for at, line in enumerate(parts)
        for length in asked - line.keys()
    ]
    table = pd.DataFrame(rows + gaps).rename(columns={"mean": "average"})
    table[["average", "low", "high"]] *= 100
    said = plots.models_in_words(table, threshold)
    for at, line in enumerate(parts):
        if len(parts) <= 4:
            check_course(re.search(rf"^m{at} (.+?) \(n = ", said, re.M)[1], line)
        about_sides = re.search(rf"^m{at} is ((?:clearly|too near).+)\.$", said, re.M)[1]
        for length, count in line.items():
            low, high = interval(*count)
            side = (
                "clearly above the threshold of {} %" if 100 * low > threshold
                else "clearly below the threshold of {} %" if 100 * high < threshold
                else "too near to the threshold of {} % to tell"
            )  # fmt: skip
            named = re.search(
                rf"{side.format(threshold)} at (.+?)(?:, clearly|, too|$)", about_sides
            )
            assert thousands(length) in re.split(", | and ", named[1])
    lacking = {}
    for names, at in re.findall(r"^(.+?) ha\w+ no average at (.+): not all tasks", said, re.M):
        lacking |= {name: {*re.split(", | and ", at)} for name in re.findall(r"m\d", names)}
    assert lacking == {
        f"m{at}": {thousands(length) for length in asked - line.keys()}
        for at, line in enumerate(parts)
        if asked - line.keys()
    }


DEPTHS = [100 * place / 9 for place in range(10)]
cells = st.dictionaries(
    st.tuples(st.sampled_from([512, 1024]), st.sampled_from(DEPTHS)),
    st.integers(1, 3).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    min_size=1,
)


def depths_of(found, task="t"):
    return pd.DataFrame([
        {"task": task, "length": length, "depth": depth, "n": n, "found": right / n}
        for (length, depth), (n, right) in found.items()
    ])  # fmt: skip


@given(cells)
@settings(deadline=None)
def test_the_sentence_on_depths_counts_rightly(found):
    said = plots.heatmap_in_words(depths_of(found))
    n, right = (sum(each) for each in zip(*found.values(), strict=True))
    # What was not measured is not said to be found, or not to be.
    whole = len({length for length, _ in found}) * len({depth for _, depth in found}) == len(found)
    if right == n:
        assert re.match(r"t: 1 needle is" if n == 1 else rf"t: all {n} needles are", said)
        assert n == 1 or ("at every depth and length" in said) == whole
        return
    if not right:
        assert re.match(rf"t: none of {n} needles? is found", said)
        assert ("at any depth or length" in said) == whole
        return
    assert re.match(rf"t: {right} of {n} needles (is|are) found \({100 * right / n:.0f} %\)", said)
    missed = [depth for (_, depth), (n, right) in found.items() if right < n]
    if len({depth for _, depth in found}) == 1:
        assert said.endswith("all stood at the same depth.")
        return
    at, one, two = re.search(r"lies? (at|between) (\d+)(?: and (\d+))? % of the", said).groups()
    assert int(one) == round(min(missed))
    assert int(two or one) == round(max(missed))
    assert (at == "at") == (len(set(missed)) == 1)


@pytest.mark.parametrize(
    ("task", "noun"),
    [("qa_2", "documents"), ("drop_1", "passages"), ("vt+num_hops=2", "hops"), ("spatial", "facts"),
     ("niah_single_1", "needles")],
)  # fmt: skip
def test_what_stands_at_a_depth_has_its_name(task, noun):
    assert f"all 2 {noun} are found" in plots.heatmap_in_words(depths_of({(512, 0): (2, 2)}, task))


@given(st.lists(counts, min_size=5, max_size=8))
@settings(deadline=None)
def test_of_many_tasks_the_highest_and_the_lowest_are_named(counts_of_tasks):
    tables = [
        depths_of({(512, 0): count}, f"t{number}") for number, count in enumerate(counts_of_tasks)
    ]
    shares = {f"t{number}": right / n for number, (n, right) in enumerate(counts_of_tasks)}
    said = plots.heatmap_in_words(pd.concat(tables))
    assert said == f"Of {len(tables)} tasks, {ranked(shares, 'tasks', 'found')}."


@given(st.lists(counts, min_size=1, max_size=6), st.booleans())
@settings(deadline=None)
def test_the_sentence_on_a_study_is_true(values, by_length):
    table = pd.DataFrame([
        row for number, count in enumerate(values)
        for row in rows_of({512: count}, setting=f"s{number}", group="g")
    ])  # fmt: skip
    if by_length:
        # At a longer length one setting is missing, so the shorter one is read.
        table = pd.concat([table, table.tail(len(table) - 1).assign(length=1024, mean=0.5)])
        table = table if len(values) > 1 else table.head(1)
    said = plots.study_in_words(table)
    assert said.startswith("g, at 512: " if by_length and len(values) > 1 else "At 512: ")
    assert ranked({f"s{at}": right / n for at, (n, right) in enumerate(values)}, "settings") in said
    pairs = [
        (f"s{a}", f"s{b}")
        for a, b in itertools.permutations(range(len(values)), 2)
        if apart(values[b], values[a])
    ]
    assert ("no two settings differ clearly" in said) == (len(values) > 1 and not pairs)
    above = re.search(r"(s\d) is clearly above (s\d)", said)
    assert bool(above) == bool(pairs)
    assert not above or above.groups() in pairs


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.lists(st.integers(0, 9), min_size=3, max_size=3)),
        min_size=1, max_size=12,
    )
)  # fmt: skip
@settings(deadline=None)
def test_the_sentence_on_mistakes_counts_rightly(cells):
    kinds = ["distractor", "empty", "other"]
    table = pd.DataFrame([
        {"task": f"t{number // 2}", "length": (512, 1024)[number % 2], "error": kind,
         "count": count, "n": right + sum(wrong)}
        for number, (right, wrong) in enumerate(cells)
        for kind, count in zip(kinds, wrong, strict=True)
    ])  # fmt: skip
    table = table[table["n"] > 0]
    if table.empty:
        return
    said = plots.errors_in_words(table)
    known = dict(tuple(table.groupby("task")))
    for name, part in known.items() if len(known) <= 3 else [("All tasks together", table)]:
        clause = re.search(rf"{name}: (.+?)\.(?:\n|$)", said)[1]
        n = part[part["error"] == "other"]["n"].sum()
        sums = part.groupby("error")["count"].sum()
        wrong = sums.sum()
        if not wrong:
            assert re.fullmatch(rf"none of {n} answers? is wrong", clause)
            continue
        assert re.match(rf"{wrong} of {n} answers? (is|are) wrong", clause)
        named = set(re.findall(r"'(\w+)'", clause))
        assert named == {kind for kind in kinds if sums[kind] == sums.max()}
        if "most often" in clause:
            assert f"({sums.max()} of {wrong}" in clause
    if len(known) > 3:
        rates = {}
        for name, part in known.items():
            rates[name] = part["count"].sum() / part[part["error"] == "other"]["n"].sum()
        by_task = re.search(r"By task: (.+)\.", said)
        assert bool(by_task) == any(rates.values())
        if by_task:
            assert by_task[1] == ranked(rates, "tasks", "wrong")
    for kind, words in re.findall(r"'([\w ]+)' means: ([^.]+)\.", said):
        assert KINDS[kind] == words


def test_every_figure_has_its_guide():
    words = {name for name in vars(plots) if name.endswith("_in_words")} | {"shade"}
    for name, draw in vars(plots).items():
        if callable(draw) and name not in words:
            guide = guide_of(draw)
            assert 40 < len(guide) < 600, name
            assert guide.endswith(".")
