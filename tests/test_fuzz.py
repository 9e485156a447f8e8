"""Bad input at random: every parameter set and every damaged file works or gets one sentence.

What is drawn depends on the number of the case alone, so that a case that fails can be tried by
itself: ``try_parameters(1234)``, ``try_damage(1234, workplace)``.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers_fuzz import HOSTILE, damaged, outcome
from helpers_model import TEMPLATE, Parrot

pytest.importorskip("torch")
pytest.importorskip("tokenizers")
pytest.importorskip("yaml")

import tokenizers
import yaml

from conftest import tries
from rulerlib import analysis, checkpoints, languages, show, sources, tasks, tokens
from rulerlib.analysis.report import Report
from rulerlib.dataset import Dataset
from rulerlib.parameters import Parameters
from rulerlib.predict import predict
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.runs import Run
from rulerlib.samples import Sample, read
from rulerlib.sources.encyclopedia import World
from rulerlib.sources.regions import read_wording
from rulerlib.store import answers, questions
from rulerlib.texts import read_texts

ROOT = Path(__file__).resolve().parents[1]

SECONDS = 60
"""What one case may take of a processor; nearly all take less than a tenth of a second."""


def failures(attempts: list[tuple[str, Callable[[], object]]]) -> tuple[list[str], Counter[str]]:
    """Return which attempts end in anything but success or one sentence, and how often what."""
    broken, counts = [], Counter()
    for name, attempt in attempts:
        what, error = outcome(attempt, SECONDS)
        counts[what if error is None else "broken"] += 1
        if error is not None:
            trace = traceback.format_exception(error)
            broken.append(f"{name}: {what}\n{''.join(trace[-3:])[-1500:]}")
    return broken, counts


def check(attempt: Callable[[int, Path], object], first: int, whole: int | None, folder: Path):
    """Try the first cases of a kind, or those that follow, and assert that none breaks.

    Parameters
    ----------
    attempt
        Tries a case by its number.
    first
        How many are the first.
    whole
        How many there are altogether, of those that follow as many are tried as are asked for;
        None: the first are tried.
    """
    cases = range(first) if whole is None else range(first, first + tries(whole - first))
    broken, counts = failures(
        [(f"{attempt.__name__}({n})", functools.partial(attempt, n, folder)) for n in cases]
    )
    print(dict(counts))
    assert not broken, f"{len(broken)} of {len(cases)} broke:\n" + "\n".join(broken[:10])
    # A tenth succeeds and a tenth is refused; of a few that follow it may be none.
    least = len(cases) // 10 - (0 if whole is None else 20)
    assert min(counts["done"], counts["refused"]) >= least, counts


# --- Parameters ------------------------------------------------------------------------------


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


def sound(folder: Path) -> dict[str, list[Any]]:
    """Return for each parameter values that work, and some that nearly do."""
    return {
        "tasks": [*tasks.TASKS, "all", "niah_single_1,vt", ["vt", "fwe"], "vt,", "[vt]", "nope"],
        "model": [str(folder / "model"), "lille", str(folder), "org/name", str(folder / "pipe")],
        "engine": ["transformers", "openai", "transformer"],
        "engine_options": [{}, {"dtype": "float32"}, {"batch_size": 2}, {"dtype": "float"}],
        "language": ["da", "en", "DA"],
        "length": [600, 900, 1024, 2048, 50, 8192, 10**5, 10**9, 10**12, "600", 600.0],
        "num_lengths": [1, 2, 3, 0, 10**9],
        "num_samples": [1, 2, 40, 10**9, 10**15, "2"],
        "seed": [0, 1, 42, 2**40, -1],
        "output": [str(folder / "out"), str(folder / "pipe"), str(folder / "own.txt"), "/proc/x"],
        "texts": [str(folder / name) for name in ("own.txt", "pipe", "pipes", "none")]
        + ["/dev/zero"],
        "data": [str(folder / name) for name in ("theirs", "pipe", "pipes", "own.txt")]
        + ["/dev/zero"],
        "allow_truncation": [True, False],
        "queries_per_context": [1, 2, 4, 10**9],
        "primary": ["recall", "all_match", "f1"],
        "family": [*tasks.FAMILIES],
        "study": [[], [{"num_hops": 2}], [{"haystack": "noise"}, {"haystack": "essay"}],
                  [{None: 1}], [{"task": "vt"}], [{"task": None}], [{}], [{"depth": 10**400}]],
        "study_length": [600, 1024, 20, 10**12],
        "study_samples": [1, 10, 10**12],
        "study_name": ["mine", "a/b"],
        # Those of format and decoding.
        "chat": [True, False], "system_prompt": ["Be brief."], "thinking": [True, False],
        "answer_prefix": ["assistant", "user", "none"], "thinking_tokens": [0, 100, 10**12],
        "thinking_tags": [["<a>", "</a>"]], "stop": [["\n"], "\n"],
        "temperature": [0, 0.5, 101], "top_p": [1, 0.5], "decoding_seed": [None, 5],
        "samples_per_question": [1, 3, 10**12], "tokens_to_generate": [None, 5, 128, 10**12],
        # Knobs.
        "haystack": ["noise", "essay", "needle"], "type_needle_k": ["words", "uuids"],
        "num_needle_k": [1, 4, 10**9], "num_needle_v": [1, 2], "depth": [0, 50, 100.0, 101],
        "num_hops": [1, 4, 10**9], "num_chains": [1, 2], "few_shot": [True, False],
        "alpha": [2.0, 0.001], "vocab_size": [2000, 10**9], "coded_wordlen": [6, 2],
        "num_cw": [10, 1], "freq_cw": [30, 10**6], "freq_ucw": [3], "words": ["text", "wordfreq"],
        "hops": [1, 2], "num_documents": [1, 5, 10**12], "context": [True, False],
        "source": [str(folder / name) for name in ("squad.json", "hotpot.json", "pipe")]
        + ["/dev/zero"],
    }  # fmt: skip


FORMAT = ("chat", "system_prompt", "thinking", "answer_prefix", "thinking_tokens", "thinking_tags",
          "stop")  # fmt: skip
DECODING = ("temperature", "top_p", "decoding_seed", "samples_per_question", "tokens_to_generate")
LIBRARY = ("family", "study_name")
RUN = ("tasks", "model", "engine", "engine_options", "language", "length", "num_lengths",
       "num_samples", "seed", "output", "texts", "data", "allow_truncation", "queries_per_context",
       "primary", "study", "study_length", "study_samples")  # fmt: skip


def draw(rng: random.Random, values: list[Any]) -> Any:
    """Return a value that works or nearly does, or a hostile one."""
    return rng.choice(values if rng.random() < 0.8 else HOSTILE)


def try_parameters(number: int, folder: Path) -> None:
    """Make what parameters drawn at random ask for; short, so that it takes no time."""
    rng = random.Random(f"parameters {number}")
    known = sound(folder)
    task = rng.choice([*tasks.TASKS])
    family = tasks.TASKS[task].family.name
    knobs = [*tasks.TASKS[task].settings()]
    usual = {"length": 1500, "language": rng.choice(["da", "en"]), "num_samples": 2}
    kind = rng.choice(["notebook", "notebook", "parameters", "dataset", "dataset", "report"])
    some = functools.partial(_some, rng, known)
    if kind == "report":
        names = ["runs", "models", "languages", "tasks", "studies", "threshold", "measure",
                 "primary", "claimed", "compare", "knob", "bins", "examples", "resamples",
                 "seed", "nope"]  # fmt: skip
        values = {name: rng.choice([*HOSTILE, "m", "da", ["m", "n"], 10]) for name in
                  rng.sample(names, rng.randint(1, 3))}  # fmt: skip
        report = Report.from_notebook({"runs": str(folder / "runs"), **values})
        _ = report.scores
    elif kind == "notebook":
        usual |= {"model": str(folder / "model"), "output": str(folder / "out"), "tasks": task}
        values = some([*RUN, *FORMAT, *DECODING, *knobs], rng.randint(1, 4))
        if rng.random() < 0.05:
            values[rng.choice(["lenght", "nope", "", "format", "\ud800", "loaded"])] = 1
        run = Run.from_notebook({**usual, **values}, family=family)
        _ = run.overview()
        _ = run.example(600) if run.given or run.num_samples < 10**6 else None
    elif kind == "parameters":
        usual |= {"model": str(folder / "model"), "output": str(folder / "out"), "tasks": task}
        values = {**usual, **some([*RUN, *LIBRARY], rng.randint(1, 4))}
        if rng.random() < 0.3:
            name = rng.choice(["knobs", "format", "decoding"])
            values[name] = rng.choice([*HOSTILE, {"num_hops": 2}, PromptFormat(), Decoding()])
        _ = Parameters(**values).lengths
    else:
        shapes = rng.choice([*HOSTILE, {}, {}]) if rng.random() < 0.2 else some(knobs, 2)
        values = {"task": task, "tokenizer": "words", **usual, "knobs": shapes}
        names = ["length", "language", "num_samples", "seed", "queries_per_context"]
        values |= some(names, rng.randint(0, 2))
        for name in rng.sample(["task", "tokenizer", "texts", "format", "room"], 1):
            values[name] = rng.choice([*HOSTILE, *known["texts"], *known["model"]])
        if family != "qa" and rng.random() < 0.5:
            values["texts"] = draw(rng, [*known["texts"], ["Det regner."], None])
        data = Dataset(**values)
        sample = data[len(data) - 1]
        assert sample.length_w_model_temp <= data.length
        _ = show.sample(sample), sample.to_json().encode()


def _some(rng: random.Random, known: dict[str, list[Any]], names: list[str], most: int) -> Any:
    chosen = rng.sample(names, min(most, len(names)))
    return {name: draw(rng, known.get(name, HOSTILE)) for name in chosen}


@pytest.fixture
def cached(monkeypatch):
    """Each tokenizer is read from disk only once."""
    read_tokenizer, known = tokens.load, {}

    def load(name, trust=False):
        # What is nested deep has no text; nothing of that kind is a name.
        key = (str(name)[:1000] if isinstance(name, (str, Path)) else id(name)), trust
        if key not in known:
            known[key] = read_tokenizer(name, trust)
        return known[key]

    monkeypatch.setattr(tokens, "load", load)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("whole", [None, pytest.param(10_000, marks=pytest.mark.long)])
def test_parameters_at_random(whole, workplace, cached, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(workplace)
    check(try_parameters, 70, whole, workplace)


# --- Damaged files ---------------------------------------------------------------------------


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
    _ = analysis.by_depth(table, 10), analysis.by_knob(table, None)
    _ = analysis.errors(table)
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
    read_wording.cache_clear()
    pack = languages.read_pack(path.parent)
    knobs = {"cwe": {"words": "text"}}
    for task in ("niah_multiquery", "vt", "cwe", "fwe", "qa_2", "qa_1"):
        _ = Dataset(task, 1500, pack, "words", num_samples=1, knobs=knobs.get(task, {}))[0]


def imagine(path: Path) -> None:
    read_wording.cache_clear()
    world = World(languages.read_pack(path.parent), seed=1, num_documents=200)
    for index in range(40):
        _ = world.question(index), world.entry(5 * index).text


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
    ("xx/language.toml", speak), ("xx/encyclopedia.toml", imagine), ("xx/nouns.txt", speak),
    ("squad.json", search), ("rows.jsonl", search), ("hotpot.json", search),
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
    check(try_damage, 60, whole, workplace)


@pytest.mark.parametrize("number", range(len(READERS)))
def test_the_whole_files_are_read(number, workplace, monkeypatch):
    """What the damaged ones are held against works, and so does what reads it."""
    monkeypatch.setattr("test_fuzz.damaged", lambda data, rng: (data, "no damage"))
    try_damage(number, workplace)
