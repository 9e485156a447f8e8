"""A report of runs on disk: everything the notebook shows, with one model and with several."""

from __future__ import annotations

import json
import math

import pytest

from rulerlib import analysis, plots, samples, show
from rulerlib.analysis import tables
from rulerlib.analysis.report import Report
from rulerlib.errors import DataError, ParameterError
from rulerlib.runs import HOME
from rulerlib.samples import Prediction

pd = pytest.importorskip("pandas")

NUMBER = "1234567"


def lay(folder, model, right, task="niah_single_2", length=1024, language="da", knobs=None):
    """A file of predictions as `rulerlib.predict` lays it."""
    path = folder / model / language / str(length) / "pred" / f"{task}.jsonl"
    records = [
        Prediction(
            index, f"a {NUMBER} b", [NUMBER], NUMBER if hit else "7654321",
            {"depths": [round(100 * index / len(right))], "language": language},
        )
        for index, hit in enumerate(right)
    ]  # fmt: skip
    samples.write(path, records)
    settings = {"dataset": {"knobs": knobs or {"haystack": "essay", "num_needle_k": 1}}}
    path.with_suffix(".settings.json").write_text(json.dumps(settings), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path):
    """Two models, two languages, three lengths, two tasks, a knob."""
    root = tmp_path / "runs"
    for model, steps in (("a", (20, 18, 9)), ("b", (19, 12, 2))):
        for language in ("da", "en"):
            for length, hits in zip((512, 1024, 2048), steps, strict=True):
                for task in ("niah_single_2", "niah_multikey_1"):
                    lay(root, model, [i < hits for i in range(20)], task, length, language)
    lay(root, "a", [i < 5 for i in range(20)], "niah_single_2+num_needle_k=8", 1024,
        knobs={"haystack": "essay", "num_needle_k": 8})  # fmt: skip
    return root


def test_every_file_below_a_folder_is_read(folder):
    found = analysis.scores(analysis.read(folder))
    assert len(found) == 20 * (2 * 2 * 3 * 2 + 1)
    assert found["model"].unique().tolist() == ["a", "b"]
    assert set(found["language"]) == {"da", "en"}
    assert found["category"].unique().tolist() == ["retrieval"]
    only = analysis.scores(analysis.read(folder, "b", ["en"], "niah_single_2"))
    assert only[["model", "language", "task"]].drop_duplicates().values.tolist() == [
        ["b", "en", "niah_single_2"]
    ]


def test_lengths_rise_and_tasks_follow_rulers_order(folder):
    order = [
        (about["length"], about["task"])
        for about, record in analysis.read(folder, "a", "da")
        if record.index == 0
    ]
    assert order == [
        (512, "niah_single_2"), (512, "niah_multikey_1"),
        (1024, "niah_single_2"), (1024, "niah_single_2+num_needle_k=8"), (1024, "niah_multikey_1"),
        (2048, "niah_single_2"), (2048, "niah_multikey_1"),
    ]  # fmt: skip


def test_several_folders_are_one_set(folder, tmp_path):
    lay(tmp_path / "more", "c", [1, 0])
    found = analysis.scores(analysis.read([folder, tmp_path / "more", folder]))
    assert len(found) == 20 * 25 + 2, "the same file counts once"
    lay(folder / "older", "a", [1, 0])
    assert len(analysis.scores(analysis.read(folder))) == 20 * 25, "other runs inside are others"
    lay(tmp_path / "again", "a", [1, 0])
    with pytest.raises(ParameterError, match="of the same model and task"):
        list(analysis.read([folder, tmp_path / "again"]))


def test_what_a_kill_left_does_not_count(folder):
    path = folder / "a" / "da" / "512" / "pred" / "niah_single_2.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    found = analysis.scores(analysis.read(folder, "a", "da", "niah_single_2"))
    assert len(found[found["length"] == 512]) == 19
    path.write_bytes(data.replace(b'"pred"', b'"said"', 1))
    with pytest.raises(DataError, match=r"niah_single_2\.jsonl, line 1: the field 'pred'"):
        list(analysis.read(folder))


def test_nvidias_files_are_read(tmp_path):
    """Their scripts write <model>/synthetic/<length>/pred/<task>.jsonl, without our extras."""
    path = tmp_path / "llama" / "synthetic" / "4096" / "pred" / "vt.jsonl"
    path.parent.mkdir(parents=True)
    record = {"index": 0, "pred": "AAAAA BBBBB", "input": "VAR AAAAA = 12345", "length": 4000,
              "outputs": ["AAAAA", "BBBBB"], "others": {}, "truncation": -1}  # fmt: skip
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    found = Report(runs=str(tmp_path)).scores.iloc[0]
    assert (found["language"], found["length"], found["strict"]) == ("synthetic", 4096, 1)
    assert found["category"] == "multi-hop tracing"


BAD = [
    ({"runs": "nowhere"}, "a folder that exists"),
    ({"models": "A"}, "models is 'A'"),
    ({"tasks": "niah_singel_2"}, "did you mean 'niah_single_2'"),
    ({"languages": "de"}, "one of da, en"),
    ({"threshold": 100}, "threshold is 100"),
    ({"threshold": "85"}, "threshold is '85'"),
    ({"metric": "em"}, "metric is 'em'"),
    ({"compare": "a"}, "two models"),
    ({"compare": "a,c"}, "second is 'c'"),
    ({"resamples": 10}, "at least 100"),
    ({"claimed": "128K"}, "a dictionary"),
    ({"knob": "hops"}, "knob is 'hops'"),
    ({"bins": 0}, "bins is 0"),
]


@pytest.mark.parametrize(("given", "said"), BAD, ids=lambda value: str(value)[:20])
def test_bad_parameters_are_one_sentence(folder, given, said):
    def everything():
        report = Report(**{"runs": str(folder), **given})
        return report.scores, report.pairs(), report.by_knob()

    with pytest.raises(ParameterError, match=said) as error:
        everything()
    assert "\n" not in str(error.value)


def test_a_folder_without_predictions_says_how_they_lie(tmp_path):
    with pytest.raises(ParameterError, match="<model>/<language>/<length>/pred"):
        list(analysis.read(tmp_path))
    (tmp_path / "m" / "da" / "long" / "pred").mkdir(parents=True)
    (tmp_path / "m" / "da" / "long" / "pred" / "vt.jsonl").write_text("")
    with pytest.raises(DataError, match="'long' should be a length"):
        list(analysis.read(tmp_path))


def test_a_notebooks_parameters(folder, monkeypatch):
    """papermill hands over text, and a folder is where runs are written."""
    monkeypatch.setenv(HOME, str(folder.parent))
    report = Report.from_notebook(
        {"runs": "runs", "models": "None", "compare": "a, b", "__name__": "__main__", "In": []}
    )
    assert report.models is None
    assert len(report.scores) == 500
    with pytest.raises(ParameterError, match="did you mean 'threshold'"):
        Report.from_notebook({"runs": "runs", "treshold": 80})


def test_accuracy_by_anything(folder):
    report = Report(runs=str(folder), models="a", languages="da")
    table = report.accuracy("category", "length").set_index("length")
    assert table.loc[512, "n"] == 40
    assert table.loc[2048, "accuracy"] == pytest.approx(9 / 20)
    assert {"n", "low", "high", "recall"} <= set(table)
    assert list(report.accuracy().columns[:4]) == list(analysis.BY)


def test_accuracy_by_knob(folder):
    table = Report(runs=str(folder)).by_knob()
    one = table[(table["model"] == "a") & (table["language"] == "da") if "language" in table
                else (table["model"] == "a")]  # fmt: skip
    one = one[(one["task"] == "niah_single_2") & (one["length"] == 1024)]
    by_value = one.set_index("value")
    assert set(by_value["knob"]) == {"num_needle_k"}
    assert by_value.loc["8", "accuracy"] == pytest.approx(5 / 20)
    assert by_value.loc["1", "accuracy"] == pytest.approx(36 / 40)
    alone = Report(runs=str(folder), models="b").by_knob()
    assert alone.empty
    assert alone.attrs["why"] == "These runs differ in no knob."


def test_rows_without_a_knob_are_left_out(folder):
    lay(folder, "a", [1], "vt", knobs={"num_hops": 4})
    table = analysis.with_knobs(analysis.scores(analysis.read(folder)), "num_hops")
    assert table["task"].unique().tolist() == ["vt"]
    with pytest.raises(ParameterError, match="did you mean 'num_hops'"):
        analysis.with_knobs(table, "num_hop")


def test_models_are_compared_two_by_two(folder):
    report = Report(runs=str(folder))
    table = report.pairs("language", "task", "length")
    row = table.set_index(["language", "task", "length"]).loc[("da", "niah_single_2", 1024)]
    assert row["models"] == "a − b"
    assert row["difference"] == pytest.approx(6 / 20)
    assert row["only_first"] == 6
    whole = report.pairs()
    assert len(whole) == 6
    assert (whole["method"] == "bootstrap").all()


def test_one_model_gets_sentences_where_two_are_needed(folder):
    report = Report(runs=str(folder), models="a")
    assert report.pairs().attrs["why"] == (
        "There is one model here, a, and a comparison needs two."
    )
    assert "only one here" in report.correlation()
    shown = show.table(report.pairs())
    assert repr(shown) == report.pairs().attrs["why"]
    assert "<p>" in shown._repr_html_()


def test_where_no_length_has_all_tasks_the_charts_say_so():
    rows = [
        ({"model": "m", "language": "da", "task": task, "length": length},
         Prediction(0, "", ["ABCDE"], "ABCDE"))
        for task, length in (("vt", 512), ("fwe", 1024))
    ]  # fmt: skip
    report = Report.of(rows)
    assert report.by_length["average"].isna().all()
    said = show.figure(plots.models, report.averages_chart(), threshold=50)
    assert "no average" in said._repr_html_()
    report.effective_chart()


def test_the_chart_holds_both_readings(folder):
    report = Report(runs=str(folder), tasks="niah_single_2", threshold=80, claimed={"a": "4K"})
    chart = report.effective_chart()
    assert chart["model"].tolist() == ["a, da", "a, en", "b, da", "b, en"]
    assert chart["effective"].tolist() == ["1K", "1K", "512", "512"]
    assert chart["claimed"].tolist() == ["4K", "4K", "", ""]
    assert report.lengths == [512, 1024, 2048]


def test_the_overview_counts_what_went_wrong(folder):
    path = folder / "a" / "da" / "512" / "pred" / "niah_single_2.jsonl"
    records = list(samples.read(path, Prediction))
    records[0].others["cut_off"] = "thinking"
    records[1].truncation = 400
    records[2].others["finished"] = False
    samples.write(path, records)
    table = Report(runs=str(folder)).overview().set_index(["model", "language", "length"])
    row = table.loc[("a", "da", 512)]
    assert (row["n"], row["tasks"], row["answers_cut_off"], row["prompts_cut"]) == (
        40, 2, 2, 1
    )  # fmt: skip


def test_shared_contexts_are_said_and_widen_the_interval(tmp_path):
    from rulerlib import metrics

    rows = []
    for index in range(100):
        about = {"model": "m", "language": "da", "task": "niah_single_2", "length": 512}
        hit = (index // 10) % 3 != 0
        rows.append((about, Prediction(index, "", ["12"], "12" if hit else "",
                                       {"context_id": index // 10})))  # fmt: skip
    report = Report.of(rows)
    row = report.accuracy().iloc[0]
    wanted = metrics.clustered(
        [float((i // 10) % 3 != 0) for i in range(100)], [i // 10 for i in range(100)]
    )
    assert (row["low"], row["high"]) == pytest.approx((wanted.low, wanted.high))
    assert row["design_effect"] == pytest.approx(wanted.design_effect)
    assert row["contexts"] == 10
    assert report.overview()["contexts"].tolist() == [10]
    alone = Report.of([(about, Prediction(r.index, "", r.outputs, r.pred)) for about, r in rows])
    assert "design_effect" not in alone.accuracy()
    assert (
        row["high"] - row["low"]
        > alone.accuracy().iloc[0]["high"] - (alone.accuracy().iloc[0]["low"])
    )


def test_contexts_of_other_tasks_are_others():
    rows = []
    for task in ("niah_single_2", "vt"):
        about = {"model": "m", "language": "da", "task": task, "length": 512}
        rows += [(about, Prediction(i, "", ["A"], "A", {"context_id": i // 2})) for i in range(4)]
    names = tables.clusters(analysis.scores(rows))
    assert names.nunique() == 4
    assert not math.isnan(len(names))


def test_a_table_is_cut_by_model_and_language(folder):
    report = Report(runs=str(folder))
    parts = dict(report.parts(report.accuracy()))
    assert list(parts) == ["a, da", "a, en", "b, da", "b, en"]
    empty = tables.nothing("Why.")
    assert [title for title, _ in report.parts(empty)] == [""]
