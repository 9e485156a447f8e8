"""Memory, analysed: its tables and its pairs against second implementations."""

from __future__ import annotations

import csv
import math
import random
from collections import Counter

import pytest
from helpers_memory_rows import PRESETS, SHORT, row, runs, write

from rulerlib import intervals, show
from rulerlib.errors import DataError, ParameterError

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")

from book import memory_tables  # noqa: E402
from book.tables import Tables  # noqa: E402
from rulerlib.memory import tables  # noqa: E402


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Three questions about each episode, of two sizes; the larger set begins with the smaller."""
    folder = tmp_path_factory.mktemp("runs")
    runs(folder, suites=("episodic", "episodic_cross", "spatial"), size=20, probes=3)
    runs(folder, suites=("episodic",), size=40, probes=3, presets=("rag", "oracle"))
    return folder


@pytest.fixture(scope="module")
def rows(root):
    return tables.read(root)


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
    empty = tables.read(tmp_path)
    for made in (tables.table, tables.floors, tables.compared, tables.fates, tables.capacity):
        assert "No run here has metrics" in show.table(made(empty)).text
    with pytest.raises(ParameterError, match="a folder that exists"):
        tables.read(tmp_path / "none")


def test_a_damaged_value_is_named_with_its_file(tmp_path):
    made = row("episodic", "rag", 0, random.Random(1))
    about = {"cell": SHORT, "work": {"preset": "rag", "knobs": {}, "changes": {}}}
    write(tmp_path / "run", [{**made, "latency_ms": "fast"}], about)
    with pytest.raises(DataError, match=r"metrics\.csv: damaged .*fast") as error:
        tables.read(tmp_path)
    assert "\n" not in str(error.value)


def test_means_are_those_of_the_file_and_intervals_know_the_episodes(rows, questions):
    table = tables.table(rows)
    for found in table.to_dict("records"):
        own = of(questions, suite=found["suite"], preset=found["preset"], size=found["size"])
        assert found["n"] == len(own)
        for name in (*tables.SCORES, *tables.ENDINGS):
            assert found[name] == pytest.approx(sum(float(each[name]) for each in own) / len(own))
        for name in tables.SCORES:
            values = [float(each[name]) for each in own]
            wanted = intervals.clustered(values, [each["episode"] for each in own])
            bounds = found[f"{name} low"], found[f"{name} high"]
            assert bounds == pytest.approx((wanted.low, wanted.high))


def test_the_store_is_judged_by_questions_that_can_be_answered(rows, questions):
    for found in tables.store_table(rows).to_dict("records"):
        own = of(questions, suite=found["suite"], preset=found["preset"], size=found["size"],
                 answerable=1)  # fmt: skip
        assert found["n"] == len(own)
        held = [float(each["em"]) for each in own if each["in_prompt"] == "1"]
        ranked = [float(each["recall_at_5"]) for each in own if each["recall_at_5"]]
        assert found["in_prompt"] == pytest.approx(len(held) / len(own))
        reader = sum(held) / len(held) if held else math.nan
        assert found["reader"] == pytest.approx(reader, nan_ok=True)
        recall = sum(ranked) / len(ranked) if ranked else math.nan
        assert found["recall_at_5"] == pytest.approx(recall, nan_ok=True)
        assert bool(ranked) == (found["preset"] not in ("core", "span_short", "longctx"))
    assert len(of(questions, suite="episodic_cross", answerable=0))


def test_what_became_of_each_question_adds_up(rows, questions):
    table = tables.fates(rows)
    for _, part in table.groupby(["suite", "preset", "size"]):
        assert list(part["fate"]) == list(tables.FATES)
        assert part["count"].sum() == part["n"].iloc[0]
        assert part["share"].sum() == pytest.approx(1)
    rag = table[(table["suite"] == "episodic") & (table["preset"] == "rag") & (table["size"] == 40)]
    own = of(questions, suite="episodic", preset="rag", size=40)
    tally = Counter((each["in_prompt"], each["em"]) for each in own)
    assert dict(zip(rag["fate"], rag["count"], strict=True)) == {
        "right": tally["1", "1"],
        "right without the facts": tally["0", "1"],
        "read wrongly": tally["1", "0"],
        "no room in the prompt": 0,
        "not recalled": tally["0", "0"],
    }
    long = table[(table["preset"] == "longctx") & (table["fate"] == "no room in the prompt")]
    assert (long["count"] > 0).all(), "what a context had no room for was there"


def test_the_tables_of_the_book_come_back_as_they_were(root, rows, tmp_path):
    written = Tables(memory_tables.make(root, tmp_path / "tables"))
    for name, table in memory_tables.tabulate(rows).items():
        if name != "about" and len(table):
            table = table.astype({"n": float}) if "n" in table else table
            there = getattr(written, name)
            pd.testing.assert_frame_equal(there, table, check_dtype=False, rtol=0, atol=1e-6)


def test_pairing_needs_the_same_questions_and_seeds_are_not_mixed(tmp_path):
    runs(tmp_path, presets=("span_short", "rag"), suites=("episodic",), size=10, seeds=(1, 2))
    runs(tmp_path, presets=("rag",), suites=("episodic",), size=10, seeds=(3,))
    assert only(tables.compared(tables.read(tmp_path)), preset="rag")["n"] == 20


def test_presets_that_were_asked_otherwise_are_not_compared(rows):
    table = tables.compared(rows)
    core = table[table["preset"] == "core"]
    assert core["difference"].isna().all()
    assert {*core["note"]} == {"asked in another way"}
    assert "span_short" not in {*table["preset"]}
    others = table[(table["preset"] != "core") & (table["size"] == 20)]
    assert others["difference"].notna().all()
    assert {*table[table["size"] == 40]["note"]} == {"the baseline was not asked"}


def test_what_can_be_had_for_nothing_does_not_depend_on_the_preset(rows, questions):
    table = tables.floors(rows)
    found = only(table, suite="episodic_cross")
    own = of(questions, suite="episodic_cross", preset="rag")
    assert found["n"] == len(own)
    assert found["constant"] == pytest.approx(np.mean([float(each["constant"]) for each in own]))
    known = [float(each["chance"]) for each in own if each["chance"]]
    assert found["chance"] == pytest.approx(np.mean(known))
    assert list(table["suite"]) == ["episodic", "episodic", "episodic_cross", "spatial"]
