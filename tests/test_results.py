"""The book's results: made small here, and a sample of the committed cells asked again."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict

import pytest
from helpers_kernel import forked
from helpers_model import ROOT, tiny_model, tree

from book import stored
from book import tables as results
from book.tables import Plan, Tables
from rulerlib import analysis, files, models
from rulerlib.errors import DataError, RulerError
from rulerlib.runs import Run

pd = pytest.importorskip("pandas")
pytest.importorskip("scipy")
pytest.importorskip("torch")
yaml = pytest.importorskip("yaml")

COMMITTED = Tables(ROOT / "book" / "results" / "lille")

# Samples asked again, and from how many cells, none longer than this.
CELLS, SAMPLES, LONGEST = 6, 4, 2048


PLAN = Plan.from_file(ROOT / "params" / "results.yaml")


def test_the_tables_are_of_the_committed_settings_and_the_weights_that_are_shipped():
    about = COMMITTED.about.set_index("name")["value"]
    for name, value in asdict(PLAN).items():
        assert about[name] == json.dumps(value), "make results: the settings have changed"
    weights = PLAN.loaded_engine.settings["weights"]
    assert about["weights"] == weights, "make results: the model has changed"


@pytest.mark.parametrize("folder", stored.folders())
def test_the_tables_of_a_model_follow_from_its_committed_answers(folder):
    tables = Tables(folder)
    again = analysis.scores(stored.predictions(folder))
    again = analysis.accuracy(again)
    # Tables in other languages are separate, and cells that are not complete yet are in no table.
    place = ["language", "task", "length"]
    complete = tables.accuracy[place].apply(tuple, axis=1)
    again = again[again[place].apply(tuple, axis=1).isin(complete)].reset_index(drop=True)
    columns = ["language", "task", "length", "n", "mean", "low", "high", "recall"]
    pd.testing.assert_frame_equal(
        again[columns].round(results.DECIMALS), tables.accuracy[columns], check_dtype=False
    )


@pytest.mark.parametrize("name", ["smollm2", "qwen2.5-coder-0.5b"])
def test_each_answer_without_a_chat_template_is_paired_with_one_that_has_it(name):
    plain = [*stored.predictions(stored.RESULTS / "plain" / name)]
    assert {about["format"]["chat"] for about, _ in plain} == {False}
    [row] = results.with_and_without_template(name, ["language", "length"]).to_dict("records")
    assert row["n"] == len(plain)
    # The mean over tasks, whose numbers of answers differ.
    by_task = analysis.accuracy(analysis.scores(plain), "ruler")["mean"]
    assert row["plain"] == pytest.approx(by_task.mean())


def test_two_languages_are_compared_by_newcombes_interval(tmp_path):
    """Method 10 of Newcombe 1998 for independent samples, with Wilson's intervals of scipy."""
    rows = [
        {"model": "m", "language": language, "task": task, "length": 1024, "n": 50,
         "mean": hits / 50, **dict(zip(("low", "high"), wilson_of(hits, 50), strict=True))}
        for language, task, hits in [("da", "vt", 45), ("en", "vt", 25), ("en", "qa_1", 3)]
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "accuracy.csv", index=False)
    (tmp_path / "about.csv").write_text("name,value\n")
    [row] = Tables(tmp_path).between("da", "en").to_dict("records")
    assert (row["task"], row["n"], row["da"], row["en"]) == ("vt", 50, 0.9, 0.5)
    (low, high), (other_low, other_high) = wilson_of(45, 50), wilson_of(25, 50)
    assert row["difference"] == pytest.approx(0.4)
    assert row["low"] == pytest.approx(0.4 - math.hypot(0.9 - low, other_high - 0.5))
    assert row["high"] == pytest.approx(0.4 + math.hypot(high - 0.9, 0.5 - other_low))
    assert Tables(tmp_path).between("da", "sv").empty


def wilson_of(hits, n):
    from scipy.stats import binomtest

    return tuple(binomtest(hits, n).proportion_ci(method="wilson"))


def test_a_sample_of_the_committed_answers_is_given_again(tmp_path, monkeypatch):
    monkeypatch.setenv(files.HOME, str(tmp_path))
    engine = PLAN.loaded_engine
    cells = stored.read(ROOT / "book" / "results" / "lille")
    short = [each for each in cells if each.cell.length <= LONGEST]
    rng = random.Random(CELLS)
    for part in rng.sample(short, CELLS):
        language, task, length = part.key
        run = Run(tasks=task, **PLAN.settings(language, length), loaded=engine)
        (cell,) = run.cells
        data = run.dataset(cell)
        for answer in rng.sample(part.answers, SAMPLES):
            sample = data[answer.index]
            request = models.Request(
                prompt=data.frame.prompt(sample.input, sample.answer_prefix),
                special=not data.frame.chat,
                max_new_tokens=data.tokens_to_generate,
            )
            ((_, again),) = engine.generate([request])
            assert again.text == answer.pred, (part.key, answer.index)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Tables of a tiny model: two languages, two lengths, a task that fits only one of them."""
    folder = tmp_path_factory.mktemp("results")
    tiny_model(folder / "tiny")
    text = f"""
model: {folder / "tiny"}
engine_options: {{dtype: float32}}
languages: [da, en]
tasks: [niah_single_2, vt, qa_1]
lengths: {{512: 4, 1024: 3}}
thresholds: [50, 85.6]
"""
    (folder / "plan.yaml").write_text(text, encoding="utf-8")
    patch = pytest.MonkeyPatch()
    patch.setenv(files.HOME, str(folder / "home"))
    plan = Plan.from_file(folder / "plan.yaml")
    results.make(plan, folder / "tables")
    yield plan, folder
    patch.undo()


def test_every_table_is_written(small):
    plan, folder = small
    names = {"accuracy", "averages", "effective", "depths", "errors", "examples", "about"}
    assert {path.stem for path in (folder / "tables").iterdir()} == names
    (cell,) = (
        part for part in stored.read(folder / "tiny") if part.key == ("en", "niah_single_2", 512)
    )
    assert [one.index for one in cell.answers] == [0, 1, 2, 3]
    made = Tables(folder / "tables")
    about = made.about.set_index("name")["value"]
    assert json.loads(about["thresholds"]) == plan.thresholds
    # The tiny model has no template.
    assert about["chat"] == "false"
    assert len(about["weights"]) == 16
    assert about["torch"]
    table = made.accuracy.set_index(["language", "task", "length"])
    for language in ("da", "en"):
        assert table.loc[(language, "niah_single_2", 512), "n"] == 4
        assert table.loc[(language, "niah_single_2", 1024), "n"] == 3
    assert list(made.accuracy) == results.ACCURACY
    assert {"strict", "strict low", "strict high"} <= set(made.averages)
    assert made.effective["threshold"].unique().tolist() == [50, 85.6]


def test_the_page_shows_them(small, tmp_path):
    papermill = pytest.importorskip("papermill")
    page, shown = ROOT / "book" / "real_models.ipynb", tmp_path / "page.ipynb"
    given = {"tables": [str(small[1] / "tables")]}
    with forked():
        done = papermill.execute_notebook(page, shown, given, cwd=ROOT, progress_bar=False)
    found = [out for cell in done.cells if cell.cell_type == "code" for out in cell.outputs]
    assert not [out for out in found if out.get("name") == "stderr"], "no warnings"
    data = [out.data for out in found if "data" in out]
    pictures = [each for each in data if "image/png" in each]
    assert len(pictures) == 1 + 2 * 2, "the averages; for each of two languages depths and errors"
    assert all(len(each["text/plain"]) > 10 for each in pictures)
    assert "95% interval" in " ".join(each.get("text/html", "") for each in data)


def test_a_second_time_asks_nothing_and_gives_the_same_bytes(small, monkeypatch):
    folder = small[1]
    before = tree(folder / "tables")
    fresh = Plan.from_file(folder / "plan.yaml")
    monkeypatch.setattr(type(fresh.loaded_engine), "generate", lambda *_: pytest.fail("asked"))
    results.make(fresh, folder / "tables")
    assert tree(folder / "tables") == before


BAD = [
    ("lenghts: {512: 1}", "did you mean 'lengths'"),
    ("lengths: {512: 0}", "num_samples is 0"),
    ("lengths: 512", "a number of samples for each length"),
    ("- a", r"plan\.yaml"),
]


@pytest.mark.parametrize(("text", "said"), BAD, ids=lambda value: value[:16])
def test_a_bad_plan_is_one_sentence(tmp_path, text, said):
    path = tmp_path / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RulerError, match=said):
        Plan.from_file(path)


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(DataError, match=r"accuracy\.csv"):
        _ = Tables(tmp_path).accuracy
