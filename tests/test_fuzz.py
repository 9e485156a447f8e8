"""Files damaged at random: every reader works or says one sentence, and no number changes unsaid.

What is drawn depends on the number of the case alone, so that a case that fails can be tried by
itself: ``try_damage(1234, workplace)``.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers_fuzz import damaged, outcome
from helpers_model import TEMPLATE, Parrot

pytest.importorskip("torch")
pytest.importorskip("tokenizers")
pytest.importorskip("yaml")

import tokenizers
import yaml

from conftest import ROOT, tries
from rulerlib import analysis, checkpoints, languages, show, sources, tokens
from rulerlib.dataset import Dataset
from rulerlib.languages.names import Names
from rulerlib.predict import predict
from rulerlib.prompts import PromptFormat
from rulerlib.runs import Run
from rulerlib.samples import Sample, read
from rulerlib.store import answers, questions
from rulerlib.texts import read_texts

SECONDS = 60
"""What one case may take of a processor; nearly all take less than a tenth of a second."""


def check(numbers: range, folder: Path) -> None:
    """Try the cases of some numbers: each is done, or refused in one sentence."""
    broken, counts = [], Counter()
    for number in numbers:
        what, error = outcome(functools.partial(try_damage, number, folder), SECONDS)
        counts[what if error is None else "broken"] += 1
        if error is not None:
            trace = traceback.format_exception(error)
            broken.append(f"try_damage({number}): {what}\n{''.join(trace[-3:])[-1500:]}")
    assert not broken, f"{len(broken)} of {len(numbers)} broke:\n" + "\n".join(broken[:10])
    # A tenth succeeds and a tenth is refused; of a few that follow it may be none.
    least = len(numbers) // 10 - (20 if numbers.start else 0)
    assert min(counts["done"], counts["refused"]) >= least, counts


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with a valid file of each kind that is read, and things that are no files."""
    folder = tmp_path_factory.mktemp("fuzz")
    make_workplace(folder)
    return folder


def make_workplace(folder: Path) -> None:
    """Write a valid file of each kind below a folder, and a pipe, a folder and a link beside."""
    model = folder / "model"
    model.mkdir()
    words = {word: number for number, word in enumerate(["<unk>", "<s>", "</s>", ".", "the", "er"])}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.add_special_tokens(["<s>", "</s>"])
    backend.save(str(model / "tokenizer.json"))
    (model / "config.json").write_text('{"max_position_embeddings": 8192}')
    (model / "tokenizer_config.json").write_text(
        '{"bos_token": "<s>", "eos_token": "</s>", "added_tokens_decoder":'
        ' {"6": {"content": "<x>", "special": true}}}'
    )
    (model / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "own.txt").write_text("Det regner. Solen skinner. Han løb hjem. " * 20)
    (folder / "own.jsonl").write_text('{"text": "Det regner."}\n{"text": "Solen skinner."}\n' * 9)
    (folder / "own.json").write_text('[{"text": "Det regner."}, {"text": "Solen skinner."}]')
    elements = {"oxygen": "8", "iron": "26", "gold": "79", "lead": "82"}
    articles = [
        {"title": "A", "paragraphs": [{"context": f"Element {number} is {name}.", "qas": [
            {"question": f"Which is {name}?", "answers": [{"text": number}]},
            {"question": f"What is element {number}?", "answers": [{"text": name}]}]}]}
        for name, number in elements.items()
    ]  # fmt: skip
    (folder / "squad.json").write_text(json.dumps({"version": "1", "data": articles}))
    rows = [
        {"title": "B", "context": f"The number of {name} is {number}.", "question": f"Of {name}?",
         "answers": {"text": [number], "answer_start": [8]}}
        for name, number in elements.items()
    ]  # fmt: skip
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "rows.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))
    hops = {"question": "Who?", "answer": "Ada", "supporting_facts": [["T", 0], ["U", 0]],
            "context": [["T", ["Ada was born."]], ["U", ["She."]], ["V", ["No."]]]}  # fmt: skip
    (folder / "hotpot.json").write_text(json.dumps([hops, hops]))
    smoke = (ROOT / "params" / "smoke.yaml").read_text()
    (folder / "params.yaml").write_text(smoke.replace("tasks: ruler", "tasks: vt,niah_single_1"))
    shutil.copytree(ROOT / "rulerlib" / "languages" / "da", folder / "xx")
    data = Dataset("niah_multikey_1", 600, "da", "words", num_samples=6)
    path = questions.write(data, folder / "runs" / "m" / "da" / "600" / "data" / "niah_multikey_1")
    about = {"model": "m", "language": "da", "task": "niah_multikey_1", "length": 600}
    pred = folder / "runs" / "m" / "da" / "600" / "pred" / "niah_multikey_1.jsonl"
    predict(path, Parrot(), pred, cell=about)
    # As NVIDIA's scripts leave them: nothing beside, and another index.
    theirs = folder / "theirs" / "m" / "synthetic" / "600"
    plain = [{"index": 812, "input": sample.input, "outputs": sample.outputs, "length": 600}
             for sample in data]  # fmt: skip
    for name, more in (("data/vt/validation.jsonl", {}), ("pred/vt.jsonl", {"pred": "ABCDE"})):
        (theirs / name).parent.mkdir(parents=True)
        lines = [json.dumps({**line, "others": {}, "truncation": -1, **more}) for line in plain]
        (theirs / name).write_text("\n".join(lines) + "\n")
    os.mkfifo(folder / "pipe")
    (folder / "pipes").mkdir()
    for name in ("own.txt", "validation.jsonl", "tokenizer.json"):
        os.mkfifo(folder / "pipes" / name)


def read_questions(path: Path) -> None:
    """Every reader of questions: each alone may refuse."""
    for sample in read(path, Sample):
        _ = show.sample(sample)


def ask(path: Path) -> None:
    """Put them to a model, and score what it says."""
    pred = path.parents[2] / "pred" / f"{path.parent.name}.jsonl"
    predict(path, Parrot(), pred)
    look(path.parents[5])


def find(path: Path) -> None:
    files = questions.find(str(path), [path.parent.name])
    _ = questions.language(str(path), files), [questions.count(each) for each in files.values()]


def rewrite(path: Path) -> None:
    """A damaged file is not taken for the whole one."""
    data = Dataset("niah_multikey_1", 600, "da", "words", num_samples=6)
    whole = "".join(sample.to_json() + "\n" for sample in data).encode()
    questions.write(data, path.parent)
    assert path.read_bytes().startswith(whole), "damaged questions are used"


def look(runs: Path) -> None:
    """What the notebook of the analysis does, without its figures."""
    table = analysis.scores(analysis.read_predictions(runs))
    _ = show.table(analysis.overview(table)), analysis.summary(table, 50, {}, resamples=100)
    _ = analysis.by_length(table, resamples=100), analysis.accuracy(table)
    _ = analysis.by_depth(table, 10), analysis.errors(table)
    _ = show.answers(analysis.error_examples(table, 1))


def look_at_ours(path: Path) -> None:
    """What is scored is what was answered, each sample once."""
    runs = path.parents[4]
    was = answers.read_predictions(path.with_suffix(".whole"))
    for prediction in answers.read_predictions(path):
        same = [each for each in was if each.index == prediction.index]
        assert len(same) <= 1
        was = [each for each in was if each.index != prediction.index]
    look(runs)


def go_on(path: Path) -> None:
    """Resume a run at its answers."""
    predict(path.parents[1] / "data" / path.stem / "validation.jsonl", Parrot(), path)


def tokenize(path: Path) -> None:
    folder = str(path.parent)
    _ = checkpoints.limit(folder)
    tokenizer = tokens.load(folder)
    data = Dataset("vt", 900, "da", tokenizer, num_samples=1, format=PromptFormat())
    _ = data[0], tokenizer.fingerprint


def speak(path: Path) -> None:
    """Every family in a language whose pack is damaged."""
    pack = languages.read_pack(path.parent)
    knobs = {"cwe": {"words": "text"}}
    for task in ("niah_multiquery", "vt", "cwe", "fwe", "graphwalks"):
        _ = Dataset(task, 1500, pack, "words", num_samples=1, knobs=knobs.get(task, {}))[0]


def name(path: Path) -> None:
    names = Names(languages.read_pack(path.parent), seed=1)
    for number in range(40):
        _ = names.word("town", number), names.months


def search(path: Path) -> None:
    source = sources.open_source(str(path))
    for index in range(source.num_questions):
        _ = source.question(index), source.related(index)
    _ = source.document(0), source.digest
    knobs = {"source": str(path), "num_documents": 2, "hops": 2 if path.stem == "hotpot" else 1}
    _ = Dataset("qa_1", 300, "en", "words", num_samples=2, knobs=knobs)[0]


def set_up(path: Path) -> None:
    try:
        values = yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    if isinstance(values, dict):
        place = {"model": str(path.parent / "model"), "output": str(path.parent / "out")}
        named = {name: value for name, value in values.items() if isinstance(name, str)}
        Run.from_notebook({"tasks": "vt", **named, **place})


def borrow(path: Path) -> None:
    texts = read_texts(str(path))
    _ = Dataset("niah_single_2", 600, "da", "words", num_samples=1, texts=texts)[0]


DATA = "runs/m/da/600/data/niah_multikey_1"
PRED = "runs/m/da/600/pred/niah_multikey_1"
READERS: list[tuple[str, Callable[[Path], None]]] = [
    (f"{DATA}/validation.jsonl", read_questions), (f"{DATA}/validation.jsonl", ask),
    (f"{DATA}/validation.jsonl", find), (f"{DATA}/validation.jsonl", rewrite),
    (f"{DATA}/metadata.json", lambda path: rewrite(path.with_name("validation.jsonl"))),
    (f"{DATA}/metadata.json", lambda path: ask(path.with_name("validation.jsonl"))),
    (f"{PRED}.jsonl", look_at_ours), (f"{PRED}.jsonl", look_at_ours), (f"{PRED}.jsonl", go_on),
    (f"{PRED}.settings.json", lambda path: look(path.parents[4])),
    (f"{PRED}.settings.json", lambda path: go_on(path.with_name("niah_multikey_1.jsonl"))),
    ("theirs/m/synthetic/600/data/vt/validation.jsonl", read_questions),
    ("theirs/m/synthetic/600/data/vt/validation.jsonl", find),
    ("theirs/m/synthetic/600/pred/vt.jsonl", lambda path: look(path.parents[4])),
    ("model/tokenizer.json", tokenize), ("model/tokenizer_config.json", tokenize),
    ("model/config.json", tokenize), ("model/chat_template.jinja", tokenize),
    ("xx/language.toml", speak), ("xx/names.toml", name), ("xx/nouns.txt", speak),
    ("squad.json", search), ("rows.json.gz", search), ("rows.jsonl", search),
    ("hotpot.json", search),
    ("params.yaml", set_up), ("own.txt", borrow), ("own.json", borrow), ("own.jsonl", borrow),
]  # fmt: skip
"""Each kind of file, and what is done with it."""


def try_damage(number: int, workplace: Path) -> None:
    """Damage a file in a copy of the workplace, and read it."""
    rng = random.Random(f"damage {number}")
    name, reader = READERS[number % len(READERS)]
    top = Path(name).parts[0].partition(".")[0]
    copy = workplace.parent / "damaged"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for each in workplace.iterdir():
        if each.name.partition(".")[0] == top or (each.name == "model" and top == "params"):
            (shutil.copytree if each.is_dir() else shutil.copy)(each, copy / each.name)
    path = copy / name
    whole = path.read_bytes()
    changed, _ = damaged(whole, rng)
    path.write_bytes(changed)
    if reader is look_at_ours:
        path.with_suffix(".whole").write_bytes(whole)
    reader(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("whole", [None, pytest.param(2_000, marks=pytest.mark.long)])
def test_files_damaged_at_random(whole, workplace):
    check(range(60) if whole is None else range(60, 60 + tries(whole - 60)), workplace)


@pytest.mark.parametrize("number", range(len(READERS)))
def test_the_whole_files_are_read(number, workplace, monkeypatch):
    """What the damaged ones are held against works, and so does what reads it."""
    monkeypatch.setattr("test_fuzz.damaged", lambda data, rng: (data, "no damage"))
    try_damage(number, workplace)
