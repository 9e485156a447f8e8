"""One dataset in six harnesses: the same prompts, and the same scores of the same answers.

Each folder is read back as its harness reads it, by the harness's own code where that is
installed (inspect_ai, lm-eval, datasets); `benchmarks/in_kvpress.py` runs kvpress.
"""

from __future__ import annotations

import csv
import importlib
import json
import re
import sys
import types
from collections import defaultdict

import pytest

from rulerlib import commands as cli
from rulerlib import making, samples, tasks
from rulerlib.errors import MissingExtraError, ParameterError
from rulerlib.export import formats, lm_eval
from rulerlib.samples import Sample

pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (rulerlib[hub])")
yaml = pytest.importorskip("yaml")

STATED = {
    "names": ["niah_single_2", "niah_multikey_2", "vt", "fwe", "qa_1"], "languages": ["en", "da"],
    "lengths": [1100, 1300], "tokenizer": "words", "num_samples": 4, "seed": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Each harness's folder, moved after it was written."""
    top = tmp_path_factory.mktemp("formats")
    for to in formats.HARNESSES:
        formats.write(to, top / "new" / to, STATED)
    (top / "new").rename(top / "moved")
    return {to: top / "moved" / to for to in formats.HARNESSES}


@pytest.fixture(scope="module")
def made():
    """The samples by language, length and task."""
    return {
        (data.metadata["language"], str(data.length), data.task): [*data]
        for data in making.from_settings(STATED)
    }


def of_inspect(folder):
    for path in folder.rglob("validation.jsonl"):
        language, length, _, task = path.parts[-5:-1]
        prompts = [one.input + one.answer_prefix for one in samples.read(path, Sample)]
        yield (language, length, task), prompts


def of_lm_eval(folder):
    for path in folder.glob("rulerlib_*.yaml"):
        task = yaml.safe_load(re.sub(r"!function \S+", "none", path.read_text("utf-8")))
        if about := task.get("dataset_kwargs"):
            language, length, _, name, _ = about["questions"].split("/")
            documents = lm_eval.documents(folder / about["questions"], about["frame"])
            prompts = [one["input"] + one["answer_prefix"] for one in documents]
            yield (language, length, name), prompts


def of_kvpress(folder):
    for path in folder.rglob("*.parquet"):
        prompts = defaultdict(list)
        for row in pq.read_table(path).to_pylist():
            prompts[row["task"]].append(row["context"] + row["question"] + row["answer_prefix"])
        for task, texts in prompts.items():
            yield (*path.parts[-3:-1], task), texts


def of_nemo(folder):
    for path in folder.rglob("test.jsonl"):
        rows = map(json.loads, path.read_text("utf-8").splitlines())
        _, language, length = path.parts[-3].split("_")
        prompts = [row["question"] + row["generation"] for row in rows]
        yield (language, length, path.parts[-2]), prompts


def of_hub(folder):
    datasets = pytest.importorskip("datasets")
    for place in {path.parts[-3:-1] for path in folder.rglob("*.parquet")}:
        splits = datasets.load_dataset(
            str(folder), "_".join(place), cache_dir=str(folder.parent / "cache")
        )
        for task, rows in splits.items():
            yield (*place, task), [row["input"] + row["answer_prefix"] for row in rows]


def of_euroeval(folder):
    for path in folder.rglob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            yield (*path.parts[-3:-1], path.stem), [row["text"] for row in csv.DictReader(file)]


READERS = dict(zip(
    formats.HARNESSES,
    (of_inspect, of_lm_eval, of_kvpress, of_nemo, of_hub, of_euroeval), strict=True,
))  # fmt: skip


@pytest.mark.parametrize("to", formats.HARNESSES)
def test_the_prompts_are_the_same_in_every_harness(folders, made, to):
    wanted = {
        place: formats.fingerprint(one.input + one.answer_prefix for one in several)
        for place, several in made.items()
    }
    read = {place: formats.fingerprint(texts) for place, texts in READERS[to](folders[to])}
    assert read == wanted
    assert len(set(wanted.values())) == len(wanted) == 20


def answers(sample):
    """Answers that are right, wrong, half right, in capitals, and long."""
    return [
        ", ".join(sample.outputs), "", sample.outputs[0].upper(), "No such thing.",
        f"It is {sample.outputs[-1]}.\nQuestion: and what else?",
    ]  # fmt: skip


def string_match(rule, answer, references):
    """RULER's own two rules, written anew."""
    hits = [reference.lower() in answer.lower() for reference in references]
    return float(max(hits)) if rule == "part" else sum(hits) / len(hits)


def ours(sample, answer, measure="ruler"):
    scoring = tasks.TASKS[sample.task].scoring
    values = scoring.score(answer, sample.outputs, sample.golds, sample.language)
    return values[getattr(scoring, measure)]


def test_harnesses_with_rules_of_their_own_score_as_ruler_does(folders, made):
    """kvpress chooses the rule by the task's name, NeMo-Skills by its __init__.py."""
    for place, several in made.items():
        language, length, task = place
        table = pq.read_table(folders["kvpress"] / language / length / "test.parquet").to_pylist()
        rows = [row for row in table if row["task"] == task]
        module = folders["nemo-skills"] / f"rulerlib_{language}_{length}" / task / "__init__.py"
        nemo = re.search(r"match_type=(\w+)", module.read_text())[1]
        kvpress = "part" if task.startswith("qa") else "all"
        for sample, row in zip(several, rows, strict=True):
            assert row["answer"] == sample.outputs
            for answer in answers(sample):
                wanted = ours(sample, answer)
                assert string_match(kvpress, answer, row["answer"]) == wanted
                assert string_match(nemo, answer, row["answer"]) == wanted


def test_reading_comprehension_is_judged_by_its_golds(tmp_path):
    stated = {**STATED, "names": ["drop_1"], "lengths": [2500], "languages": ["en"]}
    formats.write("euroeval", tmp_path / "e", stated)
    (data,) = making.from_settings(stated)
    with (tmp_path / "e/en/2500/drop_1.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    for sample, row in zip(data, rows, strict=True):
        for answer in answers(sample):
            assert formats.score(answer, row["target_text"]) == ours(sample, answer, "primary")


def test_questions_about_one_context_share_it_and_its_answer_prefix(tmp_path):
    stated = {**STATED, "names": ["niah_multikey_2", "qa_1"], "queries_per_context": 2}
    formats.write("kvpress", tmp_path / "k", {**stated, "lengths": [1300]})
    rows = pq.read_table(tmp_path / "k/da/1300/test.parquet").to_pylist()
    assert [*rows[0]] == [
        "context", "question", "answer_prefix", "task", "answer", "max_new_tokens"
    ]  # fmt: skip
    groups = defaultdict(list)
    for row in rows:
        groups[row["task"], row["context"]].append(row)
    assert [len(group) for group in groups.values()] == [2, 2, 2, 2]
    for (task, _), group in groups.items():
        # As kvpress demands it; a prefix that names the key went to the end of the question.
        assert len({row["answer_prefix"] for row in group}) == 1
        assert bool(group[0]["answer_prefix"]) == (task == "qa_1")
        assert all(row["question"] for row in group)
    data = making.from_settings({**stated, "languages": ["da"], "lengths": [1300]})
    wanted = [one.input + one.answer_prefix for dataset in data for one in dataset]
    assert [row["context"] + row["question"] + row["answer_prefix"] for row in rows] == wanted


def test_nemo_skills_imports_its_benchmarks(folders, monkeypatch):
    """As its ``get_dataset_module`` does of ``--extra_datasets``."""
    monkeypatch.syspath_prepend(str(folders["nemo-skills"]))
    group = importlib.import_module("rulerlib_en_1100")
    assert group.IS_BENCHMARK_GROUP
    assert [*group.BENCHMARKS] == [f"rulerlib_en_1100.{name}" for name in STATED["names"]]
    for name in group.BENCHMARKS:
        module = importlib.import_module(name)
        assert (module.METRICS_TYPE, module.DATASET_GROUP) == ("ruler", "long-context")
        options = dict(option.split("=") for option in module.GENERATION_ARGS.split())
        data = tasks.TASKS[name.partition(".")[2]]
        assert options["++inference.tokens_to_generate"] == str(data.tokens_to_generate)
        assert options["++start_assistant_response_key"] == "generation"


def test_the_card_says_what_is_there(folders):
    head, _, body = (folders["hub"] / "README.md").read_text("utf-8")[4:].partition("\n---\n")
    card = yaml.safe_load(head)
    assert (card["language"], card["license"]) == (["da", "en"], "apache-2.0")
    named = {file["path"] for config in card["configs"] for file in config["data_files"]}
    there = {path.relative_to(folders["hub"]).as_posix() for path in folders["hub"].rglob("*.p*t")}
    assert named == there
    assert "| en_1100 | vt | 4 | 5 | words |" in body
    about = pq.read_schema(folders["hub"] / "en/1100/vt.parquet").metadata[b"rulerlib"]
    assert json.loads(about)["seed"] == 5


def test_texts_of_ones_own_have_a_licence_of_their_own(tmp_path):
    stated = {**STATED, "names": ["niah_single_2"], "texts": ["A sentence. " * 9 + "Another."]}
    formats.write("hub", tmp_path / "h", {**stated, "lengths": [1100]})
    assert 'license: "other"' in (tmp_path / "h/README.md").read_text()


def test_inspect_runs_the_tasks_of_eval_yaml_and_scores_as_ruler_does(folders, made, monkeypatch):
    """By inspect_ai's own reader, with the folder in the place of the hub."""
    ai = pytest.importorskip("inspect_ai")
    pytest.importorskip("datasets")
    hub = pytest.importorskip("huggingface_hub")
    reader = importlib.import_module("inspect_ai._eval.task.hf")
    folder, load = folders["hub"], reader.hf_dataset
    monkeypatch.setattr(hub, "hf_hub_download", lambda filename, **_: str(folder / filename))
    monkeypatch.setattr(
        reader, "hf_dataset",
        lambda path, revision, name, split, sample_fields: load(
            str(folder), split, name=name, sample_fields=sample_fields, cached=False,
        ),
    )  # fmt: skip
    listed = yaml.safe_load((folder / "eval.yaml").read_text())
    assert listed["evaluation_framework"] == "inspect-ai"
    # Those of one reference a question: a chain or a list is none that `includes` can judge.
    names = {task["split"] for task in listed["tasks"]}
    assert names == {"niah_single_2", "niah_multikey_2"}
    (task,) = reader.task_create_from_hf("hf/owner/name/en_1100_niah_multikey_2")
    several = made["en", "1100", "niah_multikey_2"]
    outputs = {
        one.input + one.answer_prefix: answers(one)[which]
        for one, which in zip(several, (0, 3, 2, 1), strict=True)
    }

    def answered(messages, *_):
        output = ai.model.ModelOutput.from_content("m", outputs[messages[-1].text])
        # Else its tokens would be counted, by a tokenizer from the network.
        output.usage = ai.model.ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    mocked = ai.model.get_model("mockllm/model", custom_outputs=answered)
    log = ai.eval(task, model=mocked, display="none", log_dir=str(folder.parent / "logs"))[0]
    assert log.status == "success", log.error
    given = {one.input: float(one.scores["includes"].value == "C") for one in log.samples}
    wanted = [ours(*pair) for pair in zip(several, outputs.values(), strict=True)]
    assert [given[one.input] for one in several] == wanted == [1.0, 0.0, 1.0, 0.0]


def test_euroeval_gets_a_dataset_for_each_language_length_and_task(folders, made, monkeypatch):
    """With stand-ins for the few names of EuroEval that the module takes."""
    values = {
        "data_models": ("DatasetConfig", "PromptConfig", "Task"),
        "enums": ("ModelType", "TaskGroup"), "languages": (), "metrics": (), "metrics.base": (),
    }  # fmt: skip
    for name, kinds in {"": (), **values}.items():
        module = types.ModuleType(f"euroeval.{name}".rstrip("."))
        for kind in kinds:
            named = {"__init__": lambda self, **values: vars(self).update(values)}
            setattr(module, kind, type(kind, (), named))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    models, enums = sys.modules["euroeval.data_models"], sys.modules["euroeval.enums"]
    models.PromptConfig = lambda *texts: texts
    enums.TaskGroup.TEXT_TO_TEXT, enums.ModelType.GENERATIVE = "text-to-text", "generative"
    sys.modules["euroeval.languages"].get_all_languages = lambda: {"da": "da", "en": "en"}
    sys.modules["euroeval.metrics.base"].Metric = type(
        "Metric", (), {"__init__": lambda self, *names: None}
    )
    path = folders["euroeval"] / "custom_datasets.py"
    spec = importlib.util.spec_from_file_location("custom_datasets", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    configs = [one for one in vars(module).values() if isinstance(one, models.DatasetConfig)]
    assert len({one.name for one in configs}) == 20
    for config in configs:
        (measure,) = config.task.metrics
        with open(config.source["test"], newline="", encoding="utf-8") as file:
            rows = [*csv.DictReader(file)]
        task = rows[0]["target_text"] and json.loads(rows[0]["target_text"])["task"]
        language, length = config.source["test"].split("/")[-3:-1]
        several = made[language, length, task]
        given = [answers(one)[number % 5] for number, one in enumerate(several)]
        mean = measure(given, [row["target_text"] for row in rows], None, config, None)
        pairs = zip(several, given, strict=True)
        assert mean == sum(ours(*pair, "primary") for pair in pairs) / len(several)
        assert config._max_generated_tokens == tasks.TASKS[task].tokens_to_generate
        assert config.splits == ["test"]


@pytest.mark.parametrize("to", formats.HARNESSES)
def test_the_command_says_how_to_run_what_it_wrote(tmp_path, capsys, to):
    words = f"vt {tmp_path}/x --to {to} --length 1000 --language en --tokenizer words --samples 2"
    assert cli.main(["export", *words.split()]) == 0
    printed = capsys.readouterr().out
    assert str(tmp_path / "x") in printed
    assert printed.count("\n") == 1
    # What stands there is not touched.
    before = sorted((tmp_path / "x").rglob("*"))
    assert cli.main(["export", *words.split()]) == 2
    assert "a folder that does not exist yet" in capsys.readouterr().err
    assert sorted((tmp_path / "x").rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("vt --to lm_eval", "'lm-eval'"), ("drop_1 --to kvpress", "tasks is 'drop_1'"),
        ("passkey --to kvpress", "kvpress judges"), ("vt --to hub --length 3", "length is 3"),
        ("niah_multikey_2 --to hub -p present=0.5", "knobs"), ("vx --to hub", "vt"),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_told_before_anything_is_written(
    tmp_path, capsys, words, message
):
    task, *others = words.split()
    options = ["--language", "en", "--tokenizer", "words", *others]
    assert cli.main(["export", task, str(tmp_path / "x"), *options]) == 2
    assert message in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_a_killed_export_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"\[hub\]"):
        formats.write("kvpress", tmp_path / "x", STATED)
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(ParameterError, match="to is 3"):
        formats.write(3, tmp_path / "x", STATED)
