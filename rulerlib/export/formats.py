"""The same questions in the files of other harnesses, byte for byte.

    rulerlib export niah_single_2,vt folder --to kvpress --length 4096,8192 --language en

Whatever the harness, what a model is asked is a sample's ``input`` with its ``answer_prefix``, and
`fingerprint` of what stands in the files is the same in all of them. The harness's own rule gives
the score that ours gives, or calls ours.
"""

from __future__ import annotations

import csv
import hashlib
import json
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import rulerlib
from rulerlib import files, making, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError, one_of
from rulerlib.export import lm_eval, parquet
from rulerlib.samples import Sample
from rulerlib.store import questions

MATCH = {"recall": "all", "part_match": "part"}
"""What others call RULER's two rules: the share of the references, or any one of them."""

KVPRESS = {"niah": "recall", "vt": "recall", "cwe": "recall", "fwe": "recall", "qa": "part_match"}
"""By which of RULER's rules kvpress judges a task, by the beginning of its name."""


def fingerprint(prompts: Iterable[str]) -> str:
    """Return a hash of prompts, each with its answer prefix, in their order.

    >>> fingerprint(["What is 2 + 2? It is"])[:16]
    '8f597c3fbfb3494d'
    """
    whole = hashlib.sha256()
    for text in prompts:
        whole.update(hashlib.sha256(text.encode()).digest())
    return whole.hexdigest()


def write(to: str, folder: str | Path, stated: Mapping[str, Any]) -> str:
    """Write questions for a harness, and return the command that runs them there.

    Parameters
    ----------
    to
        A key of `HARNESSES`.
    folder
        A new folder, or an empty one. It can be moved afterwards.
    stated
        The parameters of `rulerlib.making.datasets` by name, as `rulerlib.making.write` takes them.

    Raises
    ------
    ParameterError
        If there is no such harness, it cannot judge a task, or the folder holds something or cannot
        be written; before anything is written.
    DataError, MissingExtraError
        As `rulerlib.dataset.Dataset`, and if a package is missing that writes the files.
    """
    harness = HARNESSES[one_of("to", to, HARNESSES)]
    folder = files.new_folder(folder)
    datasets = making.from_settings(stated)
    for dataset in datasets:
        dataset.row.check_judged_by_name()
        rule = harness.rule(dataset) if harness.rule else "primary"
        if rule is None:
            raise ParameterError("tasks", dataset.task, f"one that {to} judges as RULER does")
    with files.filling(folder) as beside:
        harness.fill(beside, datasets)
    first = datasets[0]
    words = {
        "folder": shlex.quote(str(folder.resolve())), "place": _place(first), "count": len(first),
        "group": _nemo_name(_place(first)), "name": _euroeval_name(first),
    }  # fmt: skip
    families = dict.fromkeys(dataset.row.family.name for dataset in datasets)
    if len(families) > 1 and all(dataset.task in tasks.RULER for dataset in datasets):
        families = {"ruler": None}
    commands = (harness.command.format(**words, family=family) for family in families)
    return "\n".join(dict.fromkeys(commands))


def _match(dataset: Dataset) -> str | None:
    return MATCH.get(dataset.row.scoring.ruler)


def _place(dataset: Dataset) -> str:
    return f"{dataset.metadata['language']}/{dataset.length}"


def _by_place(datasets: Iterable[Dataset]) -> Iterator[tuple[str, list[Dataset]]]:
    """Yield the datasets of each language and length; they stand in this order."""
    for place, group in groupby(datasets, _place):
        yield place, [*group]


def _text(name: str) -> str:
    """Return a text beside this file, in which words may be filled in."""
    return Path(__file__).with_name(name).read_text("utf-8")


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# --- inspect_ai and lm-evaluation-harness, which call us ------------------------------------------


def _inspect(folder: Path, datasets: Sequence[Dataset]) -> None:
    for dataset in datasets:
        questions.write(dataset, folder / making.place(dataset))


# --- kvpress -------------------------------------------------------------------------------------


def split(sample: Sample) -> tuple[str, str]:
    r"""Return what many questions may share, and the question: together they are the input.

    >>> from rulerlib.dataset import Dataset
    >>> split(Dataset("passkey", 300, "en", "words")[0])[1]
    '\nWhat is the pass key?'
    """
    asked_at = [part.start for part in sample.parts.of_role("question")]
    at = max(asked_at, default=len(sample.input))
    return sample.input[:at], sample.input[at:]


def _kvpress_rows(datasets: Iterable[Dataset]) -> Iterator[dict[str, Any]]:
    for dataset in datasets:
        room = dataset.tokens_to_generate
        samples_left = iter(dataset)
        while samples := [*islice(samples_left, dataset.queries_per_context)]:
            # One answer prefix a context: where ours name what is asked for, they go to the end of
            # the question.
            alike = len({sample.answer_prefix for sample in samples}) == 1
            for sample in samples:
                context, question = split(sample)
                prefix = sample.answer_prefix
                yield {
                    "context": context, "question": question if alike else question + prefix,
                    "answer_prefix": prefix if alike else "", "answer": sample.outputs,
                    "task": sample.task, "max_new_tokens": room,
                }  # fmt: skip


def _kvpress(folder: Path, datasets: Sequence[Dataset]) -> None:
    columns = dict.fromkeys(("context", "question", "answer_prefix", "task"), "text")
    columns |= {"answer": "texts", "max_new_tokens": "whole"}
    for place, group in _by_place(datasets):
        parquet.write_rows(folder / place / "test.parquet", columns, _kvpress_rows(group))


def _kvpress_rule(dataset: Dataset) -> str | None:
    rule = KVPRESS.get(dataset.task.partition("_")[0])
    return rule if rule == dataset.row.scoring.ruler else None


# --- NeMo-Skills ---------------------------------------------------------------------------------


def _nemo_name(place: str) -> str:
    return f"rulerlib_{place.replace('/', '_')}"


def _nemo(folder: Path, datasets: Sequence[Dataset]) -> None:
    for place, group in _by_place(datasets):
        top = folder / _nemo_name(place)
        for dataset in group:
            lines = (
                json.dumps({
                    "index": sample.index, "question": sample.input,
                    "expected_answer": sample.outputs, "length": sample.length,
                    "generation": sample.answer_prefix,
                }, ensure_ascii=False)
                for sample in dataset
            )  # fmt: skip
            here = top / dataset.task
            about = _text("nemo_task.txt").format(
                match=_match(dataset), room=dataset.tokens_to_generate
            )
            _put(here / "__init__.py", about)
            with files.replacing(here / "test.jsonl") as file:
                file.writelines(f"{line}\n" for line in lines)
        names = {f"{top.name}.{dataset.task}": dict[str, str]() for dataset in group}
        _put(top / "__init__.py", f"IS_BENCHMARK_GROUP = True\nBENCHMARKS = {json.dumps(names)}\n")


# --- The hub -------------------------------------------------------------------------------------


def _hub(folder: Path, datasets: Sequence[Dataset]) -> None:
    single = []
    for dataset in datasets:
        ones = set[bool]()

        def rows(dataset: Dataset = dataset, ones: set[bool] = ones) -> Iterator[dict[str, Any]]:
            for sample in dataset:
                ones.add(len(sample.outputs) == 1)
                yield {**parquet.row(sample), "target": sample.outputs[0]}

        parquet.write_rows(
            folder / _place(dataset) / f"{dataset.task}.parquet",
            {**parquet.COLUMNS, "target": "text"}, rows(),
            {"rulerlib": json.dumps(dataset.metadata).encode()},
        )  # fmt: skip
        judged = dataset.row.scoring.primary in ("all_match", "part_match")
        single += [dataset] if ones == {True} and judged and not dataset.row.stop else []
    rows_of = [
        f"| {_config(one)} | {one.task} | {len(one)} | {one.metadata['seed']} |"
        f" {one.metadata['tokenizer']} | {one.tokens_to_generate} | {_match(one) or ''} |"
        for one in datasets
    ]
    words = {
        "head": lm_eval.as_yaml(_card(datasets)),
        "rows": "\n".join(rows_of),
        "version": rulerlib.__version__,
        "single": ", ".join(sorted({dataset.task for dataset in single})) or "none of these",
    }
    _put(folder / "README.md", _text("hub_readme.txt").format(**words))
    if single:
        _put(folder / "eval.yaml", "".join(_eval_yaml(single)))


def _config(dataset: Dataset) -> str:
    return _place(dataset).replace("/", "_")


def _card(datasets: Sequence[Dataset]) -> dict[str, Any]:
    """Return the head of a dataset's card."""
    foreign = any(dataset.texts is not None or "source" in dataset.knobs for dataset in datasets)
    total = sum(map(len, datasets))
    sizes = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
    return {
        **tomllib.loads(_text("hub_card.toml")),
        "license": "other" if foreign else "apache-2.0",
        "language": sorted({dataset.metadata["language"] for dataset in datasets}),
        "size_categories": [next((name for most, name in sizes.items() if total < most), "n>1M")],
        "version": rulerlib.__version__,
        "configs": [
            {"config_name": place.replace("/", "_"),
             "data_files": [{"split": dataset.task, "path": f"{place}/{dataset.task}.parquet"}
                            for dataset in group]}
            for place, group in _by_place(datasets)
        ],
    }  # fmt: skip


def _eval_yaml(single: Sequence[Dataset]) -> Iterator[str]:
    yield "name: RULER, by rulerlib\ndescription: Questions about long contexts, by a program.\n"
    yield "evaluation_framework: inspect-ai\ntasks:\n"
    for one in single:
        task = {
            "id": f"{_config(one)}_{one.task}", "config": _config(one), "split": one.task,
            "field_spec": {"input": "input", "target": "target", "metadata": ["answer_prefix"]},
            "solvers": [
                {"name": "prompt_template", "args": {"template": "{prompt}{answer_prefix}"}},
                {"name": "generate",
                 "args": {"max_tokens": one.tokens_to_generate, "temperature": 0}},
            ],
            "scorers": [{"name": "includes", "args": {"ignore_case": True}}],
        }  # fmt: skip
        yield f"  - {json.dumps(task)}\n"


# --- EuroEval ------------------------------------------------------------------------------------


def _euroeval_name(dataset: Dataset) -> str:
    return f"rulerlib-{_place(dataset)}-{dataset.task}".replace("/", "-").replace("_", "-")


def _euroeval(folder: Path, datasets: Sequence[Dataset]) -> None:
    listed = []
    for dataset in datasets:
        path = folder / _place(dataset) / f"{dataset.task}.csv"
        with files.replacing(path) as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(("text", "target_text"))
            for one in dataset:
                values = one.to_dict()
                kept = ("task", "language", "outputs", "golds")
                wanted = {key: values[key] for key in kept if key in values}
                text = json.dumps(wanted, ensure_ascii=False)
                rows.writerow((one.input + one.answer_prefix, text))
        listed.append({
            "name": _euroeval_name(dataset), "language": dataset.metadata["language"],
            "file": path.relative_to(folder).as_posix(), "room": dataset.tokens_to_generate,
        })  # fmt: skip
    _put(folder / "datasets.json", json.dumps(listed, indent=1))
    _put(folder / "custom_datasets.py", _text("euroeval_datasets.txt"))


def score(answer: str, wanted: str) -> float:
    """Return the score of an answer, as `rulerlib.scoring.Scoring` gives it.

    Parameters
    ----------
    wanted
        A reference as EuroEval keeps it: JSON of task, language, outputs and golds.

    >>> score("It is 42.", '{"task": "passkey", "language": "en", "outputs": ["42"]}')
    1.0
    """
    about = json.loads(wanted)
    scoring = tasks.TASKS[about["task"]].scoring
    values = scoring.score(answer, about["outputs"], about.get("golds", ()), about["language"])
    return values[scoring.primary]


# --- All of them ---------------------------------------------------------------------------------


class Harness(NamedTuple):
    """A harness: what fills a folder for it, how that is run, and by which rule it judges.

    ``command`` names the ``folder``, and what stands in it of the first dataset; one with
    ``family`` is printed for each family. ``rule`` returns None for a task that the harness cannot
    judge; None: it calls our scoring.
    """

    fill: Callable[[Path, Sequence[Dataset]], None]
    command: str
    rule: Callable[[Dataset], str | None] | None = None


HARNESSES = {
    "inspect": Harness(
        _inspect,
        "inspect eval rulerlib/{family} -T data={folder}/{place}/data -T num_samples={count}"
        " --model hf/MODEL",
    ),
    "lm-eval": Harness(
        lm_eval.fill,
        f"lm_eval --include_path {{folder}} --tasks {lm_eval.ALL} --model hf"
        " --model_args pretrained=MODEL --batch_size 1",
    ),
    "kvpress": Harness(
        _kvpress,
        "mkdir -p simonjegou && ln -s {folder} simonjegou/ruler && python evaluate.py"
        " --dataset ruler --data_dir {place} --model MODEL --press_name snapkv"
        " --compression_ratio 0.5",
        _kvpress_rule,
    ),
    "nemo-skills": Harness(
        _nemo,
        "ns eval --extra_datasets {folder} --benchmarks {group} --cluster local"
        " --server_type vllm --model MODEL --output_dir out",
        _match,
    ),
    "hub": Harness(
        _hub, "hf upload OWNER/NAME {folder} --repo-type dataset && inspect eval hf/OWNER/NAME"
    ),
    "euroeval": Harness(
        _euroeval,
        "euroeval --custom-datasets-file {folder}/custom_datasets.py --dataset {name}"
        " --model MODEL --zero-shot",
    ),
}
"""The harnesses by name."""
