"""The files of ports of RULER: faithful ones pass, and each fault alone is named.

A faithful folder is made of our own samples, written as each port writes its files; then one
thing is done otherwise.
"""

from __future__ import annotations

import csv
import functools
import json
import random
import re
import subprocess
import sys
import warnings
from dataclasses import dataclass, replace

import pytest
from helpers_fuzz import damaged, outcome
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT
from rulerlib import tasks
from rulerlib.conformance import check, faults, layouts
from rulerlib.conformance.__main__ import main
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError

LENGTH = 1024
LAYOUTS = (layouts.NVIDIA, layouts.OWN, layouts.LM_EVAL)
ROOM = {"niah": 128, "vt": 30, "cwe": 120, "fwe": 50, "qa": 32}
NAMES_OF_LM_EVAL = {"qa_1": "ruler_qa_squad", "qa_2": "ruler_qa_hotpot"}


@dataclass
class Asked:
    """One question as a port asks it, whatever its layout."""

    input: str
    prefix: str
    outputs: list[str]
    length: int
    pred: str
    room: int
    scoring: str
    before: str = ""
    fed: bool = True
    case: bool = False

    @property
    def prompt(self) -> str:
        """All that the model is fed."""
        return self.before + self.input + (self.prefix if self.fed else "")

    @property
    def score(self) -> float:
        """RULER's published formula, or that of a port that has another one."""
        pred = re.sub(r"[\x00-\x1f]", "\n", self.pred.strip()).strip()
        if self.case:
            hits = [reference in pred for reference in self.outputs]
        else:
            hits = [reference.lower() in pred.lower() for reference in self.outputs]
        if self.scoring in tasks.TASKS:
            row = tasks.TASKS[self.scoring].scoring
            return row.score(self.pred, self.outputs)[row.ruler]
        mean = sum(hits) / len(hits)
        return {"mean": mean, "any": float(any(hits)), "all": float(all(hits))}[self.scoring]


@functools.cache
def samples(task, language="en", count=8, seed=42, **knobs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*Dataset(task, LENGTH, language, "words", count, seed, knobs=knobs)]


def asked(task, language="en", count=8, seed=42, preds=None, **knobs):
    """What a faithful port asks and gets: whole, half and wrong answers in turn."""
    kind = task.partition("_")[0]
    made = []
    for sample in samples(task, language, count, seed, **knobs):
        outputs = sample.outputs
        forms = preds or [
            " " + ", ".join(outputs) + ".", f" {outputs[0].upper()}\n", " no idea", "",
            f" it is\x07 {outputs[-1]} and {outputs[0]}",
        ]  # fmt: skip
        room = ROOM.get(kind, tasks.TASKS[task].tokens_to_generate)
        rule = "any" if kind == "qa" else "mean" if kind in ROOM else task
        made.append(Asked(
            sample.input, sample.answer_prefix, outputs, sample.length,
            forms[sample.index % len(forms)], room, rule,
        ))  # fmt: skip
    return made


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def mean(records):
    return sum(each.score for each in records) / len(records)


def write_nvidia(folder, task, records, length=LENGTH):
    """``prepare.py``, ``call_api.py`` and ``evaluate.py``, as they are since the prefix is split
    from the input and put back when it is sent."""
    base = folder / "some-model" / "synthetic" / str(length)
    lines(base / "data" / task / "validation.jsonl", [
        {"index": number, "input": each.before + each.input, "outputs": each.outputs,
         "length": each.length, "length_w_model_temp": each.length, "answer_prefix": each.prefix}
        for number, each in enumerate(records)
    ])  # fmt: skip
    lines(base / "pred" / f"{task}.jsonl", [
        {"index": number, "pred": each.pred, "input": each.prompt, "outputs": each.outputs,
         "others": {"id": number}, "truncation": -1, "length": each.length}
        for number, each in enumerate(records)
    ])  # fmt: skip
    with (base / "pred" / f"summary-{task}.csv").open("w", newline="") as file:
        score, nulls = round(100 * mean(records), 2), sum(not each.pred for each in records)
        csv.writer(file).writerows(
            [[0, 1], ["Tasks", task], ["Score", score], ["Nulls", f"{nulls}/{len(records)}"]]
        )


def write_own(folder, task, records, length=LENGTH):
    """A run of this project."""
    base = folder / "lille" / "en" / str(length)
    lines(base / "pred" / f"{task}+seed=7.jsonl", [
        {"index": number, "pred": each.pred, "input": each.before + each.input,
         "outputs": each.outputs, "length": each.length,
         "others": {"answer_prefix": each.prefix, "tokens_generated": 9, "finished": True}}
        for number, each in enumerate(records)
    ])  # fmt: skip
    place = "assistant" if records[0].fed else "none"
    about = {"tokens_to_generate": records[0].room, "answer_prefix": place}
    (base / "pred" / f"{task}+seed=7.settings.json").write_text(json.dumps(about))


def write_lm_eval(folder, task, records, length=LENGTH):
    """``lm_eval --log_samples --output_path folder``."""
    name = NAMES_OF_LM_EVAL.get(task, task if task.startswith("niah") else f"ruler_{task}")
    stamp = "2026-11-22T21-01-02.345678"
    lines(folder / "org__model" / f"samples_{name}_{stamp}.jsonl", [
        {"doc_id": number,
         "doc": {"index": number, "input": each.input, "outputs": each.outputs,
                 "length": each.length, "max_length": length, "gen_prefix": each.prefix.strip()},
         "target": str(each.outputs),
         "arguments": {"gen_args_0": {
             "arg_0": each.prompt,
             "arg_1": {"do_sample": False, "max_gen_toks": each.room, "until": []}}},
         "resps": [[each.pred]], "filtered_resps": [each.pred], "filter": "none",
         "metrics": ["4096", str(length)], "4096": -1.0, str(length): each.score}
        for number, each in enumerate(records)
    ])  # fmt: skip
    results = {"results": {name: {"alias": name, f"{length},none": mean(records)}}}
    (folder / "org__model" / f"results_{stamp}.json").write_text(json.dumps(results))


WRITERS = {
    layouts.NVIDIA: write_nvidia, layouts.OWN: write_own, layouts.LM_EVAL: write_lm_eval,
}  # fmt: skip


def looked_at(folder):
    return check(folder, "words")


def found(report):
    return {finding.fault for finding in report.findings}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("language", ["da", "en"])
def test_a_faithful_port_passes_in_every_task(layout, language, tmp_path):
    for task in (*tasks.RULER, *tasks.FRONTIER):
        WRITERS[layout](tmp_path, task, asked(task, language))
    report = looked_at(tmp_path)
    assert (report.findings, report.layout) == ([], layout)
    assert (report.files, report.records) == (13 + 6, (13 + 6) * 8)
    unscored = {"part-match averaged", "list all or nothing", "score differs"}
    lacking = {layouts.OWN: unscored, layouts.NVIDIA: {"answer truncated"}}
    assert set(report.unchecked) == lacking.get(layout, set())


ANSWERS = st.lists(st.text(max_size=40), min_size=1, max_size=6)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(tasks.RULER), st.sampled_from(["da", "en"]), st.sampled_from(LAYOUTS),
    ANSWERS, st.booleans(),
)  # fmt: skip
def test_whatever_a_model_says_a_faithful_port_passes(
    tmp_path_factory, task, language, layout, preds, knowing
):
    """Any text may be an answer, and a reference may stand in it in any case."""
    folder = tmp_path_factory.mktemp("port")
    records = asked(task, language, preds=preds)
    if knowing:
        records = [replace(each, pred=each.pred + each.outputs[-1].title()) for each in records]
    assert not found(looked_at(written(layout, folder, task, records)))


def written(layout, folder, task, records, **more):
    WRITERS[layout](folder, task, records, **more)
    return folder


def test_frequent_words_may_fill_the_length_as_nvidias_script_does(tmp_path):
    """Its prompt alone has up to the context length; the answer comes on top."""
    records = [replace(each, length=LENGTH + 50) for each in asked("fwe")]
    written(layouts.NVIDIA, tmp_path, "fwe", records)
    assert not check(tmp_path).findings
    WRITERS[layouts.NVIDIA](tmp_path, "fwe", [replace(records[0], length=LENGTH + 51)])
    assert found(check(tmp_path)) == {"prompt over budget"}


@pytest.mark.parametrize(("task", "end"), [
    ("niah_multikey_1", "The special magic number for a-b mentioned in the provided text is"),
    ("vt", "Answer: According to it, 5 variables are assgined the value 12345, they are: "),
    ("cwe", "Answer: The top 10 words that appear most often in the list are:"),
    ("fwe", "Answer: According to it, the three most frequently appeared words are:"),
    ("qa_1", "Question: Who? Answer:"),
])  # fmt: skip
def test_the_older_files_of_nvidia_pass(task, end, tmp_path):
    """The prefix was part of the input, and there was no field for it."""
    base = tmp_path / "4096"
    row = {"index": 812, "input": f"Here is Ada 9 times.\n{end}", "outputs": ["Ada"]}
    answer = {**row, "pred": "Ada", "others": {}, "truncation": -1, "length": 4000}
    lines(base / "data" / task / "validation.jsonl", [{**row, "length": 4000}])
    lines(base / "pred" / f"{task}.jsonl", [answer, {**answer, "input": "b" + row["input"]}])
    table = f"0,1\nTasks,{task}\nScore,100.0\nNulls,0/2\n"
    (base / "pred" / "summary.csv").write_text(table)
    report = check(tmp_path)
    assert (report.findings, report.records, report.layout) == ([], 2, layouts.NVIDIA)


def test_prompts_without_answers_are_looked_at_too(tmp_path):
    written(layouts.NVIDIA, tmp_path, "vt", asked("vt", language="da", paraphrase=3))
    assert not found(looked_at(tmp_path))
    for path in tmp_path.rglob("pred/*"):
        path.unlink()
    report = looked_at(tmp_path)
    assert (found(report), report.records) == (set(), 8)
    assert "part-match averaged" in report.unchecked


def changing(**values):
    """A fault: other fields of every question, each a value or what a function makes of it."""
    return lambda records: [
        replace(record, **{name: value(record) if callable(value) else value
                           for name, value in values.items()})
        for record in records
    ]  # fmt: skip


def without_gold(record):
    return re.sub("|".join(record.outputs), "something", record.input, flags=re.IGNORECASE)


loses_prefix, averages = changing(fed=False), changing(scoring="mean")
long = changing(input=lambda record: record.input.replace("\n", "\n" + "Off we go. " * 400, 1))
nested = "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n" * 2

ALL = set(LAYOUTS)
SCORED = ALL - {layouts.OWN}
STATED = {layouts.LM_EVAL, layouts.OWN}
INJECTED = {
    "prefix": ("answer prefix lost", loses_prefix,
               ("niah_multiquery", "vt", "cwe", "fwe", "qa_1"), ALL),
    "long": ("prompt over budget", long, ("niah_single_2", "vt", "qa_2", "trace"), ALL),
    "room": ("answer truncated", changing(room=20), ("niah_single_1", "cwe", "qa_1"), STATED),
    "gold": ("gold not readable", changing(input=without_gold),
             ("niah_multikey_2", "fwe", "cwe", "qa_1"), ALL),
    "mean": ("part-match averaged", averages, ("qa_1",), SCORED),
    "all": ("list all or nothing", changing(scoring="all"), ("niah_multivalue", "vt"), SCORED),
    "case": ("score differs", changing(case=True), ("niah_single_3", "qa_2", "fwe"), SCORED),
    "any": ("score differs", changing(scoring="any"), ("vt", "graphwalks"), SCORED),
    "tokens": ("special tokens twice", changing(before="<s><s>"),
               ("niah_single_2", "qa_1"), ALL),
    "templates": ("special tokens twice", changing(before=nested), ("cwe",), ALL),
}  # fmt: skip
CASES = [
    pytest.param(fault, inject, task, layout, id=f"{name}-{task}-{layout}")
    for name, (fault, inject, named, where) in INJECTED.items()
    for task in named
    for layout in LAYOUTS
    if layout in where
]


@pytest.mark.parametrize(("fault", "inject", "task", "layout"), CASES)
def test_each_fault_alone_is_named(fault, inject, task, layout, tmp_path):
    """Beside another task that is as it should be."""
    # With room for what the fault puts before the prompt.
    length = LENGTH + 100 if fault == "special tokens twice" else LENGTH
    other = "fwe" if task != "fwe" else "vt"
    WRITERS[layout](tmp_path, other, asked(other, "da"), length)
    WRITERS[layout](tmp_path, task, inject(asked(task, "da")), length)
    (finding,) = looked_at(tmp_path).findings
    assert (finding.fault, finding.task, finding.length) == (fault, task, length)
    assert 0 < finding.records <= finding.checked == 8
    assert finding.evidence.endswith(".")
    assert finding.first.startswith(f"{finding.file}, record ")


def test_one_gold_that_is_missing_is_found_among_many(tmp_path):
    """Of lists, every reference of every record; of real questions, a few may have none."""
    made = asked("niah_multivalue")
    made[3].input = made[3].input.replace(made[3].outputs[2], "0")
    written(layouts.NVIDIA, tmp_path, "niah_multivalue", made)
    (finding,) = check(tmp_path).findings
    assert (finding.fault, finding.records) == ("gold not readable", 1)
    assert finding.first.endswith("niah_multivalue.jsonl, record 4")
    made = asked("qa_2", count=40)
    made[5].outputs, made[6].outputs = ["yes"], ["of another book"]
    written(layouts.NVIDIA, tmp_path / "qa", "qa_2", made)
    assert not check(tmp_path / "qa").findings


def test_a_mean_that_no_score_gives_is_found(tmp_path):
    """lm-eval writes both; NVIDIA's scripts the mean alone."""
    written(layouts.LM_EVAL, tmp_path, "vt", asked("vt"))
    (results,) = tmp_path.rglob("results_*.json")
    table = json.loads(results.read_text())
    table["results"]["ruler_vt"][f"{LENGTH},none"] += 0.01
    results.write_text(json.dumps(table))
    (finding,) = check(tmp_path).findings
    assert (finding.fault, finding.records) == ("score differs", 8)
    assert re.search(r"mean of 0\.\d{4}, and RULER's rule gives 0\.\d{4}", finding.evidence)


@pytest.mark.parametrize("messages", [list, json.dumps])
def test_messages_of_a_chat_are_read_as_one_prompt(messages, tmp_path):
    """With the prefix as the beginning of the assistant's turn."""
    made = asked("vt")
    written(layouts.LM_EVAL, tmp_path, "vt", made)
    (path,) = tmp_path.rglob("samples_*")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row, each in zip(rows, made, strict=True):
        turns = [{"role": "user", "content": each.input},
                 {"role": "assistant", "content": each.prefix}]  # fmt: skip
        row["arguments"]["gen_args_0"]["arg_0"] = [messages(turns)]
    lines(path, rows)
    assert not check(tmp_path, "words").findings
    for row in rows:
        row["arguments"]["gen_args_0"]["arg_0"] = [messages(turns[:1])]
    lines(path, rows)
    assert "answer prefix lost" in found(check(tmp_path))


def sentence(folder, *more, code=2):
    """What the command says of a folder that it cannot read."""
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr("builtins.print", lambda text, file=None: said.append((str(text), file)))
        assert main([str(folder), *more]) == code
    ((text, file),) = said
    assert (file is sys.stderr) is (code == 2)
    return text


def test_what_cannot_be_read_gets_one_sentence(tmp_path):
    assert sentence(tmp_path / "none") == f"{tmp_path / 'none'}: no such folder."
    assert "no files of prompts or answers (*.jsonl" in sentence(tmp_path)
    (tmp_path / "vt.jsonl").write_text("not JSON\n")
    assert "vt.jsonl, line 1: not valid JSON" in sentence(tmp_path)
    (tmp_path / "vt.jsonl").write_text("")
    assert "no record of a known layout" in sentence(tmp_path)
    (tmp_path / "vt.jsonl").write_text('{"text": "x"}\n')
    assert "vt.jsonl, record 1: no record of a known layout, but one of ['text']" in (
        sentence(tmp_path)
    )
    (tmp_path / "vt.jsonl").write_text('{"input": "x", "outputs": ["y"]}\n')
    written(layouts.LM_EVAL, tmp_path, "vt", asked("vt"))
    assert "different layouts, lm-eval (" in sentence(tmp_path)
    assert "no such tokenizer" not in sentence(tmp_path / "org__model", code=0)
    assert "length is 0, but must be" in sentence(tmp_path / "org__model", "--length", "0")
    assert "tokenizer" in sentence(tmp_path / "org__model", "--tokenizer", str(tmp_path))
    other = tmp_path / "gsm8k"
    lines(other / "output.jsonl", [{"input": "2 + 2?", "outputs": ["4"], "pred": "5"}])
    assert "no records of a task of RULER's" in sentence(other)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_field_of_another_type_is_named(layout, tmp_path):
    """In the last record, so that it is not told by the first."""
    written(layout, tmp_path, "vt", asked("vt"))
    path = max(tmp_path.rglob("*.jsonl"))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    name = "filtered_resps" if layout == layouts.LM_EVAL else "outputs"
    right, rng = path.read_bytes(), random.Random(layout)
    rows[-1][name] = 7
    lines(path, rows)
    with pytest.raises(DataError, match=rf"(record|line) 8: the field '{name}' is 7"):
        check(tmp_path)
    # Anything anywhere gives a report or a sentence.
    for _ in range(10):
        data, kind = damaged(right, rng)
        path.write_bytes(data)
        ended, error = outcome(lambda: check(tmp_path, "words"), 60)
        assert ended in ("done", "refused"), (kind, error)


def test_the_command_prints_and_exits_as_it_says(tmp_path):
    written(layouts.LM_EVAL, tmp_path, "qa_1", averages(asked("qa_1")))
    run = functools.partial(subprocess.run, capture_output=True, text=True, timeout=60)
    command = [sys.executable, "-m", "rulerlib.conformance", str(tmp_path)]
    done = run(command)
    assert (done.returncode, done.stderr) == (1, "")
    assert "8 records in 1 file, in lm-eval's layout." in done.stdout
    assert "part-match averaged: qa_1 at 1,024 tokens, " in done.stdout
    assert "RULER gives the whole point to" in done.stdout
    page = (ROOT / "book" / "conformance.md").read_text("utf-8")
    assert all(f"\n| {fault.name} |" in page for fault in faults.FAULTS)
