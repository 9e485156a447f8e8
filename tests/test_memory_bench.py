"""Teaching and asking: only files pass between them, kills cost nothing, figures are right.

The figures are computed again from the files alone, by code that shares none with the project.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
import string
from collections import Counter

import pytest

pytest.importorskip("yaml")
pytest.importorskip("numpy")

from helpers_memory import Student, kept, matrix, metrics, rows, taught

from conftest import ROOT, python
from rulerlib import languages, models
from rulerlib.errors import ParameterError
from rulerlib.memory import asking, bench, measuring, results
from rulerlib.memory.rag import Rag
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import System, Text
from rulerlib.memory.teaching import GuardError
from rulerlib.memory.work import METRICS, STORE, TABLE, expand
from rulerlib.samples import Sample, read

STORES = ["rag", "memory/hei_nw", "memory/sgc_rss", "memory/smpd"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--suites", "episodes"], r"suite is 'episodes'.*did you mean 'episodic'"),
        (["--sizes", "2,2"], r"sizes is \[2, 2\], but must be a list without repetition"),
        (["--length", "30", "--suites", "episodic"], r"length is 30, but must be at least \d+"),
        (["--set", "gatte=false"], r"setting is 'gatte'.*did you mean 'gate'"),
        (
            ["--engine", "reference", "--engine-option", "tokenizer=words"],
            r"use_chat_template is True, but must be False, because the tokenizer 'words' has no",
        ),
        (["--model", "lille", "--length", "999999"], r"length is 999999, but must be at most"),
    ],
)
def test_bad_input_is_one_sentence_before_anything_is_done(given, sentence, tmp_path, capsys):
    root = tmp_path / "runs"
    words = ["--sizes", "2", "--seeds", "7", "--root", str(root), *given]
    assert bench.main(words) == 2
    told = capsys.readouterr()
    assert re.search(sentence, told.err), told.err
    assert told.err.count("\n") == 1
    assert not told.out
    assert not root.exists()


def test_a_dry_run_says_what_would_be_run_and_where(tmp_path, capsys):
    words = ["--presets", "span_short,memory/hei_nw", "--dry-run", "--root", str(tmp_path / "r")]
    assert bench.main(words) == 0
    head, *lines, total = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == ("preset language suite questions facts EM norm file")
    assert len(lines) == 108
    assert total.startswith("108 runs (0 finished), 45,000 questions, ")
    assert sum(int(line.split()[3].replace(",", "")) for line in lines) == 45_000
    named = {line.split()[-1] for line in lines}
    assert named == {str(job.file(TABLE)) for job in expand(["span_short", "memory/hei_nw"],
                                                            root=str(tmp_path / "r"))}  # fmt: skip
    assert not [*tmp_path.iterdir()]


def asked_of(job):
    """The questions of a piece of work, as they stand on disk."""
    return [*read(job.questions_path, Sample)]


def bare(text, language):
    """Words in small letters, without marks and articles: SQuAD's normalization, once more."""
    kept = "".join(each for each in text.lower() if each not in string.punctuation)
    words = [word for word in kept.split() if word not in languages.load(language).articles]
    return words or kept.split()


def scores_again(answer, golds, language):
    """Exact match raw and normalized, and F1, by code that shares none with the project."""
    raw = float(answer.strip() in golds)
    said = bare(answer, language)
    norm = float(any(said == bare(gold, language) for gold in golds))
    best = 0.0
    for gold in golds:
        wanted = bare(gold, language)
        common = sum((Counter(said) & Counter(wanted)).values())
        if common:
            precision, recall = common / len(said), common / len(wanted)
            best = max(best, 2 * precision * recall / (precision + recall))
    return raw, norm, best


@pytest.mark.parametrize(
    ("suite", "language"),
    [("episodic", "da"), ("semantic", "en"), ("episodic_multi", "en"), ("episodic_cross", "da")],
)
def test_every_figure_follows_from_the_files(student, tmp_path, suite, language):
    works = matrix(tmp_path, suites=[suite], sizes=[4], languages=[language])
    assert not taught(works)
    for job in works:
        table, found = rows(job), metrics(job)
        asked = [(episode, probe) for episode, _, probe in job.questions()]
        prompts = [each.input for each in asked_of(job)]
        assert len(table) == len(asked) == found["n"] == 4
        recalled = [each.facts.get("recalled", []) for each in asked_of(job)]
        sums = Counter()
        for place, (row, (episode, probe)) in enumerate(zip(table, asked, strict=True)):
            raw, norm, f1 = scores_again(row["answer"], probe.golds, language)
            assert (float(row["em_raw"]), float(row["em_norm"])) == (raw, norm)
            assert float(row["f1"]) == pytest.approx(f1, abs=1e-5)
            sums.update(em_raw=raw, em_norm=norm, f1=f1)
            assert int(row["needed"]) == len(probe.needs)
            assert int(row["taught"]) == len(episode.facts)
            assert row["leaked"] == "0"
            needed = {episode.facts[number].text for number in probe.needs}
            if not needed:
                assert (row["answerable"], row["in_prompt"], row["recall_at_5"]) == ("0", "", "")
                continue
            shown = all(text in prompts[place] for text in needed)
            assert row["in_prompt"] == str(int(shown))
            # The student says the answer where it stands, and nothing else.
            assert row["em_norm"] == row["in_prompt"]
            if job.preset.stores:
                first = [text["text"] for text in recalled[place][:5]]
                share = sum(text in first for text in needed) / len(needed)
                assert float(row["recall_at_5"]) == pytest.approx(share, abs=1e-5)
                order = [text["text"] for text in recalled[place]]
                ranks = [order.index(text) + 1 for text in needed if text in order]
                wanted = 1 / min(ranks) if ranks else 0
                assert float(row["rr"]) == pytest.approx(wanted, abs=1e-5)
        for name in ("em_raw", "em_norm", "f1"):
            assert found[name] == pytest.approx(sums[name] / 4, abs=1e-5)
        faults = found["diagnostics"]
        assert faults == {name: sum(int(row[name]) for row in table) for name in faults}
    assert {*faults} == {*measuring.FAULTS}
    # What sees nothing knows nothing, and what sees all that is needed knows all that is known.
    by_name = {job.preset.name: metrics(job)["em_norm"] for job in works}
    assert by_name["core"] == by_name["span_short"] == 0
    assert by_name["oracle"] >= max(by_name.values())


def test_the_length_holds_and_what_has_no_room_is_told(student, tmp_path):
    for preset, side, length in (("longctx", "last", 150), ("rag", "first", 100)):
        (job,) = matrix(tmp_path, preset_names=[preset], length=length)
        taught([job])
        for sample, (episode, *_) in zip(asked_of(job), job.questions(), strict=True):
            texts = [each["text"] for each in sample.facts.get("recalled", [])]
            texts = texts or [fact.text for fact in episode.facts]
            cut = sample.facts["cut"]
            assert sample.length_w_model_temp <= length
            assert 0 < cut < len(texts)
            kept = texts[cut:] if side == "last" else texts[: len(texts) - cut]
            assert [text in sample.input for text in kept] == [True] * len(kept)
            one_more = texts[cut - 1] if side == "last" else texts[len(kept)]
            more = student.tokenizer.count(one_more + "\n")
            assert sample.length_w_model_temp + more > length
        assert [int(row["cut"]) > 0 for row in rows(job)] == [True, True]


@pytest.mark.parametrize("preset", STORES)
def test_a_system_is_given_texts_and_questions_and_nothing_else(
    student, tmp_path, monkeypatch, preset
):
    (job,) = matrix(tmp_path, preset_names=[preset])
    given, kind = [], type(job.preset.opened(tmp_path, job.pack))
    teach, recall = kind.teach, kind.recall
    monkeypatch.setattr(
        kind, "teach", lambda self, *values: given.append(values) or teach(self, *values)
    )
    taught([job], ask=False)
    marks = {"number", "day", "session", "rewarded", "pinned", "surprise"}
    for name, texts in given:
        assert type(name) is str
        assert {type(text) for text in texts} == {Text}
        assert all({*vars(text)} == marks for text in texts)
    given.clear()
    monkeypatch.setattr(
        kind, "recall", lambda self, *values: given.append(values) or recall(self, *values)
    )
    monkeypatch.setattr(kind, "teach", None)
    taught([job])
    expected = [(episode.id, probe.text) for episode, _, probe in job.questions()]
    assert given == expected


@pytest.mark.parametrize(
    ("suite", "sentence"),
    [
        ("episodic", "The store of hei_nw-threshold_900 is empty after teaching: of 40 facts"),
        ("episodic_cross", "Session 1 begins with nothing taught: hei_nw-threshold_900 kept none"),
    ],
)
def test_a_store_that_is_empty_after_teaching(student, tmp_path, suite, sentence):
    """A gate that nothing passes leaves nothing to a second session, or to the questions."""
    (job,) = matrix(tmp_path, preset_names=["memory/hei_nw"], suites=[suite],
                    changes={"threshold": 900})  # fmt: skip
    (told,) = taught([job])
    assert sentence in told
    assert not job.file(STORE).exists()


def test_a_run_that_is_shot_anywhere_ends_with_the_same_files(tmp_path, monkeypatch):
    """A process of its own is shot before it opens, renames or removes its n-th file."""
    whole, mine = tmp_path / "whole", tmp_path / "mine.yaml"
    mine.write_text("system: outside.memory:Memory\n", "utf-8")
    names = ["memory/hei_nw", "rag", "oracle", str(mine)]
    works = matrix(whole, preset_names=names)
    with monkeypatch.context() as patch:
        student = Student(whole)
        patch.setattr(models, "load", lambda *_, **__: student)
        assert not taught(works)
    expected = kept(whole)
    root = tmp_path / "shot"
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\nimport helpers_memory\n"
    shooter = python(f"{code}helpers_memory.shoot({names!r}, {str(root)!r}, every=11)")
    assert shooter.returncode == 0, shooter.stderr
    assert json.loads(shooter.stdout.splitlines()[-1]) > 10
    assert kept(root) == expected


def test_an_answer_is_no_formula_of_a_spreadsheet(student, tmp_path, monkeypatch):
    """What is read again is the answer itself."""
    formula = '=HYPERLINK("http://localhost", "12")'
    monkeypatch.setattr(student, "answer", lambda prompt: formula)
    (job,) = matrix(tmp_path, preset_names=["oracle"])
    assert not taught([job])
    assert {row["answer"] for row in rows(job)} == {f"'{formula}"}
    assert {*results.read(tmp_path)["answer"]} == {formula}


def test_a_finished_run_is_not_done_again(student, tmp_path, monkeypatch):
    works = matrix(tmp_path)
    taught(works)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    student.asked.clear()
    monkeypatch.setattr(System, "__init__", None)
    assert not taught(works)
    assert student.asked == []
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: path.write_bytes(b"no store"), "not a store, or damaged"),
        (lambda path: shutil.rmtree(path.parent), "not ready to be asked; teach first"),
    ],
)  # fmt: skip
def test_a_store_that_is_not_the_one(student, tmp_path, damage, sentence):
    works = matrix(tmp_path, preset_names=["rag", "core"])
    taught(works, ask=False)
    damage(works[0].file(STORE) / "store.sqlite")
    stopped = {}
    bench.ask(works, stopped)
    ((job, told),) = stopped.items()
    assert job is works[0]
    assert sentence in told
    assert told.count("\n") == 0
    assert not works[0].file(METRICS).exists()
    assert works[1].file(METRICS).exists(), "the others go on"


def test_a_memory_that_was_never_asked(student, tmp_path, monkeypatch):
    (job,) = matrix(tmp_path, preset_names=["rag"])
    monkeypatch.setattr(Rag, "recall", lambda *_: [])
    (sentence,) = taught([job])
    assert sentence.endswith("retrieval.requests == 0: rag was never asked for anything.")
    assert not job.file(METRICS).exists()


def test_one_text_that_claims_to_be_all_facts_delivers_itself_alone(student, tmp_path, monkeypatch):
    (job,) = matrix(tmp_path, preset_names=["rag"], sizes=[6])
    search = Rag.search

    def boast(self, episode, question):
        last = search(self, episode, question)[-1]
        return [last._replace(numbers=tuple(range(20)))]

    monkeypatch.setattr(Rag, "search", boast)
    assert not taught([job])
    for row, (episode, _, probe) in zip(rows(job), job.questions(), strict=True):
        (recalled,) = asked_of(job)[int(row["index"])].facts["recalled"]
        told = {fact.text for fact in episode.needed(probe)} == {recalled["text"]}
        assert (row["recall_at_1"], row["in_prompt"]) == (str(int(told)),) * 2
        assert row["disagree"] == str(int(not told))
    assert "1" in {row["disagree"] for row in rows(job)}


def test_memories_that_are_compared_recall_as_many_texts(student, tmp_path):
    mine = tmp_path / "mine.yaml"
    same = "system_prompt: 'Answer with the exact shortest span from the prompt. No explanations.'"
    mine.write_text(f"system: rag\nsettings: {{k: 10}}\n{same}\n", "utf-8")
    works = matrix(tmp_path, preset_names=["rag", str(mine)])
    sentence = r"k of mine-\w+ is 10, but must be 5, what rag has"
    with pytest.raises(ParameterError, match=sentence):
        bench.check(works)
    # What is asked in another way is not compared.
    mine.write_text("system: rag\nsettings: {k: 10}\n", "utf-8")
    bench.check(matrix(tmp_path, preset_names=["rag", str(mine)]))
    bench.check(matrix(tmp_path, preset_names="all"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text, fact: text[:60], "What was recalled does not stand in the prompt"),
        (
            lambda text, fact: f"{text} {fact.upper()}",
            "What was taught stands in a prompt that must hold none",
        ),
    ],
)
def test_a_prompt_that_lacks_a_text_or_has_one_too_many(
    student, tmp_path, monkeypatch, change, sentence
):
    (job,) = matrix(tmp_path, preset_names=["rag"])
    fitted, unasked = asking.fitted, job.recipe.first.facts[3].text

    def changed(*values):
        put, kept = fitted(*values)
        return put._replace(text=change(put.text, unasked)), kept

    monkeypatch.setattr(asking, "fitted", changed)
    (told,) = taught([job])
    assert sentence in told
    assert student.asked == []


def test_a_reader_that_refuses(student, tmp_path, monkeypatch):
    works = matrix(tmp_path, preset_names=["rag", "oracle", "span_short"], sizes=[4])
    monkeypatch.setattr(student, "answer", lambda prompt: "Ukendt.")
    sentences = taught(works)
    assert [re.search(r"refused (\d) of (\d) questions of (\w+)", each).groups()
            for each in sentences] == [("4", "4", "rag"), ("4", "4", "oracle")]  # fmt: skip
    # Who sees nothing is right to refuse.
    assert works[2].file(METRICS).exists()
    assert {row["refused"] for row in rows(works[2])} == {"1"}


def test_an_oracle_below_a_memory(student, tmp_path, monkeypatch):
    works = matrix(tmp_path, preset_names=["rag", "oracle"], sizes=[8])
    answer = student.answer
    # What stands alone is not understood.
    monkeypatch.setattr(
        student, "answer", lambda prompt: answer(prompt) if prompt.count("\n") > 11 else "nothing"
    )
    assert not taught(works)
    (sentence,) = bench.run(works, quiet=True)
    assert re.search(r"The oracle is below rag by \d+\.\d points of exact match \(n = 8; rag is"
                     r" better in 8 of the 8 episodes", sentence)  # fmt: skip


@pytest.mark.parametrize(
    ("better", "worse", "stops"), [(6, 0, True), (5, 0, False), (9, 1, True), (8, 2, False)]
)
def test_how_far_an_oracle_may_be_below(better, worse, stops):
    """Against all ways in which the signs could have fallen, each of them as likely."""
    signs = [1] * better + [-1] * worse + [0] * 5
    table = [{"em_norm": (1 + sign) // 2 if sign else 1, "episode": f"e{place}", "made": False}
             for place, sign in enumerate(signs)]  # fmt: skip
    oracle = [{**row, "em_norm": row["em_norm"] - signs[at]} for at, row in enumerate(table)]
    ways = [sum(way) for way in itertools.product((0, 1), repeat=better + worse)]
    assert (sum(hits >= better for hits in ways) / len(ways) <= 0.025) == stops
    with pytest.raises(GuardError) if stops else contextlib.nullcontext():
        measuring.check_below("rag", oracle, table)
    # A text that the memory made is none that an oracle has.
    measuring.check_below("smpd", oracle, [{**row, "made": True} for row in table])


@pytest.mark.parametrize("code", ["da", "en"])
def test_what_a_way_is_worth(code):
    pack, kinds = languages.load(code), set()
    (item,) = Recipe("spatial", 1, 5, code, probes=6)
    for probe in item.episode.probes:
        optimum, gold, none = probe.facts.get("optimum"), probe.golds[0], (False, False, None)
        cases = {
            "stand": {"N": (None, None, None)},
            "length": {gold: (True, True, 0), f"{optimum + 2}.": (True, False, 2), "far": none,
                       str(optimum - 1): none},
            "route": {", ".join(gold).lower(): (True, True, 0), gold[:-1]: (True, False, None),
                      "over there": none},
        }  # fmt: skip
        for text, wanted in cases[probe.kind].items():
            assert (*measuring.way(text, item.episode, probe, pack).values(),) == wanted, text
        kinds.add(probe.kind)
    assert {"length", "route"} <= kinds
