"""Memory, analysed: its tables and its pairs against second implementations."""

from __future__ import annotations

import csv
import json
import math
import random
from collections import Counter, defaultdict

import pytest
from helpers_memory_rows import PRESETS, SHORT, row, runs, write

from rulerlib import show
from rulerlib.errors import DataError, ParameterError

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")

from book import memory_tables  # noqa: E402
from book.memory_tables import MemoryTables  # noqa: E402
from rulerlib.memory import results, tables  # noqa: E402


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Three questions about each episode, of two sizes; the larger set begins with the smaller."""
    folder = tmp_path_factory.mktemp("runs")
    runs(folder, suites=("episodic", "episodic_cross", "spatial"), size=20, probes=3)
    runs(folder, suites=("episodic",), size=40, probes=3, presets=("rag", "oracle"))
    return folder


@pytest.fixture(scope="module")
def rows(root):
    return results.read(root)


@pytest.fixture(scope="module")
def questions(root):
    """All rows as the csv module reads them, without pandas, with the presets' whole names."""
    found = []
    for path in sorted(root.rglob("metrics.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            found += csv.DictReader(file)
    names = {name.rpartition("/")[2]: name for name in PRESETS}
    return [{**each, "preset": names[each["preset"]]} for each in found]


def of(questions, **wanted):
    return [each for each in questions if all(each[name] == str(v) for name, v in wanted.items())]


def only(table, **wanted):
    for name, value in wanted.items():
        table = table[table[name] == value]
    (found,) = table.to_dict("records")
    return found


def test_no_runs_are_a_sentence_and_no_folder_is_an_error(tmp_path):
    empty = results.read(tmp_path)
    assert "no metrics" in empty.attrs["why"]
    for made in (tables.table, tables.store_table, tables.fates, tables.capacity, tables.routes,
                 tables.floors, tables.compared):  # fmt: skip
        assert "no metrics" in show.table(made(empty)).text
    with pytest.raises(ParameterError, match="a folder that exists"):
        results.read(tmp_path / "none")


BAD = [
    ("seed", "", "Integer column has NA values"),
    ("latency_ms", "fast", "fast"),
]


@pytest.mark.parametrize(("column", "value", "said"), BAD)
def test_a_damaged_value_is_named_with_its_file(tmp_path, column, value, said):
    rng = random.Random(1)
    made = [row("episodic", "rag", index, rng) for index in range(3)]
    made[1][column] = value
    write(tmp_path / "run", made, {"cell": SHORT})
    with pytest.raises(DataError, match=r"metrics\.csv: damaged") as error:
        results.read(tmp_path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def clustered_error(values, clusters):
    """The standard error of a mean, robust to what the values of a cluster share."""
    centre = sum(values) / len(values)
    sums = defaultdict(float)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value - centre
    count = len(sums)
    return math.sqrt(count / (count - 1) * sum(x * x for x in sums.values())) / len(values)


def test_means_are_those_of_the_file_and_intervals_know_the_episodes(rows, questions):
    table = tables.table(rows)
    for found in table.to_dict("records"):
        own = of(questions, suite=found["suite"], preset=found["preset"], size=found["size"])
        assert found["n"] == len(own)
        assert found["episodes"] == len({each["episode"] for each in own}) == len(own) // 3
        for name in (*tables.MEASURES, *tables.DIAGNOSTICS):
            assert found[name] == pytest.approx(sum(float(each[name]) for each in own) / len(own))
        assert found["em_raw"] <= found["em_norm"]
        for name in tables.MEASURES:
            assert 0 <= found[f"{name} low"] <= found[name] <= found[f"{name} high"] <= 1
    one = only(table, suite="episodic", preset="rag", size=40)
    own = of(questions, suite="episodic", preset="rag", size=40)
    error = clustered_error([float(each["em_norm"]) for each in own],
                            [each["episode"] for each in own])  # fmt: skip
    half = (one["em_norm high"] - one["em_norm low"]) / 2
    assert half == pytest.approx(1.96 * error, rel=0.25)


def test_the_store_is_judged_by_questions_that_can_be_answered(rows, questions):
    table = tables.store_table(rows)
    for found in table.to_dict("records"):
        own = of(questions, suite=found["suite"], preset=found["preset"], size=found["size"],
                 answerable=1)  # fmt: skip
        assert found["n"] == len(own)
        held = [each for each in own if each["in_prompt"] == "1"]
        assert found["in_prompt"] == pytest.approx(len(held) / len(own))
        assert found["reader n"] == len(held)
        if held:
            right = sum(float(each["em_norm"]) for each in held)
            assert found["reader"] == pytest.approx(right / len(held))
        else:
            assert math.isnan(found["reader"])
        ranked = [float(each["recall_at_5"]) for each in own if each["recall_at_5"]]
        if ranked:
            assert found["recall_at_5"] == pytest.approx(sum(ranked) / len(ranked))
        else:
            assert found["preset"] in ("core", "span_short", "longctx")
            assert math.isnan(found["recall_at_5"])
        ceiling = of(questions, suite=found["suite"], preset="oracle", size=found["size"],
                     answerable=1)  # fmt: skip
        assert found["oracle"] == pytest.approx(np.mean([float(c["em_norm"]) for c in ceiling]))
    assert len(of(questions, suite="episodic_cross", answerable=0))


def test_what_became_of_each_question_adds_up(rows, questions):
    table = tables.fates(rows)
    for _, part in table.groupby(["suite", "preset", "size"]):
        assert list(part["fate"]) == list(tables.FATES)
        assert part["count"].sum() == part["n"].iloc[0]
        assert part["share"].sum() == pytest.approx(1)
    rag = table[(table["suite"] == "episodic") & (table["preset"] == "rag") & (table["size"] == 40)]
    counts = dict(zip(rag["fate"], rag["count"], strict=True))
    own = of(questions, suite="episodic", preset="rag", size=40)
    tally = Counter((each["in_prompt"], each["em_norm"]) for each in own)
    assert counts["right"] == tally["1", "1"]
    assert counts["right without the facts"] == tally["0", "1"]
    assert counts["read wrongly"] == tally["1", "0"]
    assert counts["not recalled"] == tally["0", "0"]
    assert counts["no room in the prompt"] == 0
    long = table[(table["preset"] == "longctx") & (table["fate"] == "no room in the prompt")]
    assert (long["count"] > 0).all(), "what a context had no room for was there"


def test_ways_are_judged_where_a_way_was_asked_for(rows, questions):
    found = only(tables.routes(rows), preset="oracle")
    own = [each for each in of(questions, preset="oracle") if each["success"]]
    assert found["n"] == len(own)
    assert found["success"] == pytest.approx(np.mean([float(each["success"]) for each in own]))
    assert found["steps_over"] == 1
    assert "asks for a route" in tables.routes(rows[rows["suite"] == "episodic"]).attrs["why"]


def test_the_tables_of_the_book_come_back_as_they_were(root, rows, tmp_path):
    for folder, weights in (("one", "a"), ("two", "b"), ("three", "a")):
        beside = root / folder / "episodic.settings.json"
        beside.parent.mkdir()
        beside.write_text(json.dumps({"weights": weights}))
    written = MemoryTables(memory_tables.make(root, tmp_path / "tables"))
    assert written.told("weights") == "a, b"
    assert written.told("questions") == str(len(rows))
    for name, table in memory_tables.tabulate(rows).items():
        if name != "about" and len(table):
            there = getattr(written, name)
            wanted = table.fillna({"method": ""})
            pd.testing.assert_frame_equal(there, wanted, check_dtype=False, rtol=0, atol=1e-6)


def drawn(seed, episodes, probes, effect):
    """Rows of two presets whose answers to one episode tend to be alike."""
    rng = random.Random(seed)
    rows = []
    for index in range(episodes * probes):
        base = rng.random() < random.Random(f"{seed} {index // probes}").random() * 0.6
        better = base or rng.random() < effect
        for preset, value in (("span_short", base), ("rag", better)):
            made = row("episodic", preset, index, random.Random(1), size=episodes, probes=probes)
            rows.append({**made, "em": float(value)})
    frame = pd.DataFrame(rows).replace("", np.nan)
    return frame.assign(
        knobs="", changes="", length=2048, engine="", asked="{}",
        unit=frame["episode"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seed", "episodes", "probes", "effect"),
    [(0, 30, 4, 0.1), (1, 60, 2, 0.5)],
)
def test_a_difference_and_its_interval_are_those_of_clusters(seed, episodes, probes, effect):
    """Against the cluster-robust standard error of the differences, by plain Python."""
    rows = drawn(seed, episodes, probes, effect)
    found = only(tables.compared(rows), preset="rag")
    first = rows[rows["preset"] == "rag"].sort_values("index")
    second = rows[rows["preset"] == "span_short"].sort_values("index")
    away = (first["em"].to_numpy() - second["em"].to_numpy()).tolist()
    assert found["n"] == len(away)
    assert found["difference"] == pytest.approx(sum(away) / len(away))
    assert found["mean"] - found["baseline"] == pytest.approx(found["difference"])
    error = clustered_error(away, first["episode"].tolist())
    assert found["method"] == "recovered"
    half = (found["high"] - found["low"]) / 2
    # Few clusters and nearly equal means get wider intervals than the normal quantile gives.
    assert 0.9 * 1.96 * error < half < 1.6 * 1.96 * error + 0.005
    assert found["low"] <= found["difference"] <= found["high"]


def test_pairing_needs_the_same_questions_and_seeds_are_not_mixed(tmp_path):
    runs(tmp_path, presets=("span_short", "rag"), suites=("episodic",), size=10, seeds=(1, 2))
    runs(tmp_path, presets=("rag",), suites=("episodic",), size=10, seeds=(3,))
    found = only(tables.compared(results.read(tmp_path)), preset="rag")
    assert (found["n"], found["left_out"]) == (20, 10)


def test_presets_that_were_asked_otherwise_are_not_compared(rows):
    table = tables.compared(rows)
    core = table[table["preset"] == "core"]
    assert core["difference"].isna().all()
    assert {*core["note"]} == {"asked with another system prompt, tokens to generate"}
    assert "span_short" not in {*table["preset"]}
    others = table[(table["preset"] != "core") & (table["size"] == 20)]
    assert others["difference"].notna().all()
    assert {*table[table["size"] == 40]["note"]} == {"the baseline was not asked"}
    alike = tables.compared(rows.assign(changes="max_new_tokens=9"))
    pd.testing.assert_frame_equal(alike[[*table]], table)


def test_what_can_be_had_for_nothing_does_not_depend_on_the_preset(rows, questions):
    table = tables.floors(rows)
    found = only(table, suite="episodic_cross")
    own = of(questions, suite="episodic_cross", preset="rag")
    assert found["n"] == len(own)
    assert found["constant"] == pytest.approx(np.mean([float(each["constant"]) for each in own]))
    known = [float(each["chance"]) for each in own if each["chance"]]
    assert found["chance"] == pytest.approx(np.mean(known))
    assert list(table["suite"]) == ["episodic", "episodic", "episodic_cross", "spatial"]
