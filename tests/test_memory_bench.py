"""The memory benchmark: what a memory receives, how runs resume, and what the numbers mean.

The numbers are computed again from the files, without code of the project.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from unittest.mock import Mock

import pytest

pytest.importorskip("yaml")
pytest.importorskip("numpy")

from helpers_memory import Student, finished, kept, matrix, metrics, rows

from rulerlib import files, languages, models
from rulerlib.errors import ParameterError
from rulerlib.memory import bench, measures, presets
from rulerlib.memory.measures import METRICS
from rulerlib.memory.search import Rag
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import System, Text
from rulerlib.memory.work import STORE, MemoryReport
from rulerlib.samples import Sample, read


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--suites", "episodes"], r"suite is 'episodes'.*did you mean 'episodic'"),
        (["--sizes", "2,2"], r"sizes is \[2, 2\], but must be a list without"),
        (["--length", "30", "--suites", "episodic"], r"length is 30, but must be at least \d+"),
        (["--primary-em", "loose"], r"primary_em is 'loose', but must be one of norm, raw"),
        (
            ["--engine", "reference", "--engine-option", "tokenizer=words"],
            r"use_chat_template is True, but must be False, because the tokenizer 'words' has no",
        ),
        (["--model", "lille", "--length", "999999"], r"length is 999999, but must be at most"),
    ],
)
def test_bad_input_is_an_error_of_one_line(given, sentence, tmp_path, capsys):
    root = tmp_path / "runs"
    words = ["--sizes", "2", "--seeds", "7", "--root", str(root), *given]
    assert bench.main(words) == 2
    told = capsys.readouterr()
    assert re.search(sentence, told.err), told.err
    assert told.err.count("\n") == 1
    assert not told.out
    assert not root.exists()


def test_the_notebook_runs_the_matrix_and_the_curve(tmp_path, monkeypatch):
    monkeypatch.setenv(files.HOME, str(tmp_path))
    report = MemoryReport(
        suites="semantic", presets="rag", sizes=2, seeds="1, 2", language="da,en",
        facts="10,100", facts_size=3, knobs={"hop_depth": 3}, reference=True,
    )  # fmt: skip
    assert {job.engine for job in report.works} == {"transformers", "reference"}
    assert len({job.folder for job in report.works}) == len(report.works) == 8
    assert all(job.folder.is_relative_to(tmp_path / "runs" / "memory") for job in report.works)
    curve = {(job.recipe.suite, job.recipe.size, job.recipe.knobs.facts) for job in report.curve}
    assert curve == {("episodic_capacity", 3, 10), ("episodic_capacity", 3, 100)}
    for name, value, said in (("facts", 2.5, "facts is 2.5"), ("output", "", "output is ''")):
        with pytest.raises(ParameterError, match=said):
            MemoryReport(**{name: value})


def asked_of(job):
    """Return the questions of a piece of work from their file."""
    return [*read(job.questions_path, Sample)]


def probes_of(job):
    return [(episode, probe) for episode in job.recipe for probe in episode.probes]


@pytest.mark.parametrize(
    ("suite", "language"),
    [("episodic", "da"), ("semantic", "en"), ("episodic_multi", "en"), ("episodic_cross", "da")],
)
def test_every_number_follows_from_the_files(student, tmp_path, suite, language):
    works = matrix(tmp_path, suites=[suite], sizes=[4], language=[language])
    assert not finished(works)
    for job in works:
        table, found = rows(job), metrics(job)
        questions, sums = asked_of(job), Counter()
        assert len(table) == len(questions) == found["n"] == 4
        for row, question, (episode, probe) in zip(table, questions, probes_of(job), strict=True):
            # The scores follow from metrics.csv alone.
            golds, answer = json.loads(row["golds"]), row["answer"]
            assert golds == [*probe.golds]
            assert row["gold"] == golds[0]
            # The student says a gold, or a word that is in none.
            for name in measures.MEASURES:
                assert float(row[name]) == (answer in golds)
                sums[name] += answer in golds
            longest = max(len(gold.split()) for gold in golds)
            assert (int(row["gold_len"]), int(row["pred_len"])) == (longest, len(answer.split()))
            assert int(row["overlong"]) == (len(answer.split()) > longest)
            # Delivery follows from the prompt.
            assert int(row["needed"]) == len(probe.needs)
            assert int(row["taught"]) == len(episode.facts)
            assert row["leaked"] == "0"
            needed = {episode.facts[number].text for number in probe.needs}
            if not needed:
                assert (row["answerable"], row["in_prompt"], row["recall_at_5"]) == ("0", "", "")
                continue
            assert int(row["in_prompt"]) == all(text in question.input for text in needed)
            assert row["em_norm"] == row["in_prompt"], "the student answers from its prompt"
            if job.preset.stores:
                order = [text["text"] for text in question.facts["recalled"]]
                order = [text for text in order if text in question.input]
                share = sum(text in order[:5] for text in needed) / len(needed)
                assert float(row["recall_at_5"]) == pytest.approx(share, abs=1e-5)
                ranks = [order.index(text) + 1 for text in needed if text in order]
                rank = 1 / min(ranks) if ranks else 0
                assert float(row["rr"]) == pytest.approx(rank, abs=1e-5)
        for name in measures.MEASURES:
            assert found[name] == pytest.approx(sums[name] / 4, abs=1e-5)
        faults = found["diagnostics"]
        assert faults == {name: sum(int(row[name]) for row in table) for name in measures.FAULTS}
    by_name = {job.preset.name: metrics(job)["em"] for job in works}
    assert by_name["core"] == by_name["span_short"] == 0
    assert by_name["oracle"] >= max(by_name.values())


def test_the_primary_exact_match_is_a_choice(student, tmp_path, monkeypatch):
    monkeypatch.setattr(student, "answer", lambda prompt: "29. JULI.")
    for primary in ("norm", "raw"):
        (job,) = matrix(tmp_path, presets=["oracle"], primary_em=primary)
        assert not finished([job])
        assert metrics(job)["em"] == metrics(job)[f"em_{primary}"]
        assert [row["em"] for row in rows(job)] == [row[f"em_{primary}"] for row in rows(job)]


@pytest.mark.parametrize(
    ("language", "answer", "violates"),
    [("da", "29. juli", 0), ("en", "29 July", 0), ("da", "Den 29. juli.", 1), ("da", "Ulrun.", 1)],
)
def test_a_date_is_a_bare_answer(student, tmp_path, monkeypatch, language, answer, violates):
    monkeypatch.setattr(student, "answer", lambda prompt: answer)
    (job,) = matrix(tmp_path, presets=["oracle"], language=[language], sizes=[1])
    assert not finished([job])
    assert [row["format_violation"] for row in rows(job)] == [str(violates)]


@pytest.mark.parametrize(
    ("preset", "last", "length", "tokens"),
    [("longctx", True, 150, 192), ("rag", False, 100, 192), ("rag", False, 2048, 30)],
)
def test_prompts_hold_as_many_texts_as_fit(student, tmp_path, preset, last, length, tokens):
    changes = {} if preset == "longctx" else {"recall_tokens": tokens}
    (job,) = matrix(tmp_path, presets=[preset], length=length, changes=changes)
    assert not finished([job])
    count = student.tokenizer.count
    for sample, (episode, _) in zip(asked_of(job), probes_of(job), strict=True):
        texts = [each["text"] for each in sample.facts.get("recalled", [])]
        texts = texts or [fact.text for fact in episode.facts]
        cut = sample.facts["cut"]
        assert 0 < cut < len(texts)
        kept_texts = texts[cut:] if last else texts[: len(texts) - cut]
        assert all(text in sample.input for text in kept_texts)
        more = texts[cut - 1] if last else texts[len(kept_texts)]
        assert sample.length_w_model_temp <= length
        too_long = sample.length_w_model_temp + count(more + "\n") > length
        if preset == "rag":
            assert count("\n".join(kept_texts)) <= tokens
            too_long = too_long or count("\n".join([*kept_texts, more])) > tokens
        assert too_long
    assert [int(row["cut"]) > 0 for row in rows(job)] == [True, True]


def test_a_system_receives_texts_and_questions_and_nothing_else(student, tmp_path, monkeypatch):
    (job,) = matrix(tmp_path, presets=["rag"], suites=["episodic_cross"])
    made, opened = [], presets.opened

    def watched(*given, **settings):
        made.append((given[1], Mock(wraps=opened(*given, **settings))))
        return made[-1][1]

    monkeypatch.setattr(presets, "opened", watched)
    assert not finished([job])
    systems = iter(made)
    for episode in job.recipe:
        folders = set()
        for session in range(3):
            folder, system = next(systems)
            folders.add(folder)
            (texts,) = system.teach.call_args.args
            assert texts == [fact.text for fact in episode.facts if fact.session == session]
            marks = {"number", "day", "session", "rewarded", "pinned"}
            assert all(type(text) is Text and {*vars(text)} == marks for text in texts)
            assert not system.recall.called
        folder, system = next(systems)
        assert folders == {folder}, "the same folder, opened again"
        asked = [call.args for call in system.recall.call_args_list]
        assert asked == [(probe.text,) for probe in episode.probes]
    assert next(systems, None) is None


# --- Runs that resume ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    ["memory.system.System.close", "store.write_questions", "files.write_object",
     "predict.predict", "memory.measures.write"],
)  # fmt: skip
def test_an_interrupted_run_ends_with_the_same_files(tmp_path, monkeypatch, place):
    def run(root):
        student = Student(root)
        monkeypatch.setattr(models, "load", lambda *_, **__: student)
        assert not finished(matrix(root, presets=["oracle", "memory/hei_nw"]))

    run(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(f"rulerlib.{place}", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "mine")
    run(tmp_path / "mine")
    assert kept(tmp_path / "mine") == kept(tmp_path / "whole")


def test_a_finished_run_is_not_done_again(student, tmp_path, monkeypatch):
    works = matrix(tmp_path)
    assert not finished(works)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    student.asked.clear()
    monkeypatch.setattr(System, "__init__", None)
    assert not bench.run(works, quiet=True)
    assert student.asked == []
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert before == {path: content for path, content in after.items() if path.suffix != ".lock"}


# --- Guards --------------------------------------------------------------------------------------


def test_a_store_that_is_empty_after_teaching(student, tmp_path):
    (job,) = matrix(tmp_path, presets=["memory/hei_nw"], changes={"threshold": 900})
    assert finished([job]) == ("The store of hei_nw-threshold_900 is empty after teaching.",)
    assert not (job.folder / STORE).exists()


def test_a_memory_that_was_never_asked(student, tmp_path, monkeypatch):
    works = matrix(tmp_path, presets=["rag", "core"])
    monkeypatch.setattr(Rag, "recall", lambda *_: [])
    assert finished(works) == ("retrieval.requests == 0: rag was never asked for anything.",)
    assert not (works[0].folder / METRICS).exists()
    assert (works[1].folder / METRICS).exists(), "the others go on"


def test_a_prompt_with_a_leaked_text(student, tmp_path, monkeypatch):
    (job,) = matrix(tmp_path, presets=["rag"])
    asked, unasked = bench.asked, job.recipe.first.facts[3].text.upper()

    def changed(language, question, texts):
        text = asked(language, question, texts)
        return f"{text} {unasked}" if len(texts) > 4 else text

    monkeypatch.setattr(bench, "asked", changed)
    (told,) = finished([job])
    assert "A prompt holds a taught text that was not" in told
    assert student.asked == []


@pytest.mark.parametrize("code", ["da", "en"])
def test_answers_about_routes_are_judged_on_the_map(code):
    (job,) = matrix("runs", presets=["oracle"], suites=["spatial"], sizes=[1], seeds=[5],
                    language=[code], probes=6)  # fmt: skip
    kinds = set()
    (episode,) = Recipe("spatial", 1, 5, code, probes=6)
    for probe in episode.probes:
        optimum, gold, none = probe.facts["optimum"], probe.golds[0], (False, False, None)
        cases = {
            "stand": {"N": (None, None, None)},
            "length": {gold: (True, True, 0), f"{optimum + 2}.": (True, False, 2), "far": none,
                       str(optimum - 1): none},
            "route": {", ".join(gold).lower(): (True, True, 0), gold[:-1]: (True, False, None),
                      "over there": none},
        }  # fmt: skip
        about = measures.judge(job, episode, probe, [], slice(0))
        for text, wanted in cases[probe.kind].items():
            found = measures.way(text, about, languages.load(code))
            assert (*found.values(),) == wanted, text
        kinds.add(probe.kind)
    assert {"length", "route"} <= kinds
