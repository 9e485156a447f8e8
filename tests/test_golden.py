"""Samples, prompts, names, tables and the explorer have the hashes that are stored.

``golden.json`` holds the first 16 digits of the SHA-256 of each. If you change prompts or tables on
purpose, write the file again; its diff shows what has changed::

    python tests/test_golden.py
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers_explore import write_run, write_runs
from helpers_tasks import FAMILIES, SPECIAL

from conftest import SHARED, make_tokenizer, tries
from rulerlib import analysis, languages, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import MissingWordingError, ParameterError
from rulerlib.explore import site
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.samples import Sample
from rulerlib.store import Cell
from rulerlib.tasks import all_tasks

TASKS = all_tasks()

pd = pytest.importorskip("pandas")
pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

FILE = Path(__file__).with_name("golden.json")

KINDS = ("words", "bytelevel", "llama2")
LANGUAGES = languages.available()
PLACES = [*itertools.product(TASKS, LANGUAGES, (600, 1500, 4096))]

# Settings that make other samples than the row's own, or put them in another way.
FURTHER: dict[str, dict[str, Any]] = {
    "niah_single_2": {"num_samples": 3, "seed": 7},
    "niah_multiquery": {"question_language": "en"},
    "niah_multikey_1": {"queries_per_context": 2},
    "niah_multivalue": {"knobs": {"num_needle_v": 2}},
    "vt": {"knobs": {"num_hops": 2}},
    "cwe": {"format": PromptFormat(answer_prefix="none")},
    "qa_1": {"format": PromptFormat(stop=("\n",))},
    "drop_1": {"knobs": {"fewshot": 0, "reasoning": False}},
    "niah_single_3": {"texts": ["Der var engang en mand. Han boede her. Det var alt."]},
}

FORMATS = {
    "as it is": PromptFormat(),
    "system": PromptFormat(system_prompt="Answer in one word."),
    "thinking": PromptFormat(thinking=True, thinking_tokens=64, answer_prefix="user"),
    "no prefix": PromptFormat(answer_prefix="none"),
    "plain": PromptFormat(chat=False),
}

NAMES = {
    "0": {},
    "1": {"model": "org/Model-7B", "format": PromptFormat(chat=False)},
    "2": {"knobs": {"source": "data/dev.json", "num_docs": 3}, "seed": 7},
    "3": {"options": {"dtype": "float32", "max_model_len": 4096}, "engine": "vllm"},
    "4": {"decoding": Decoding(temperature=0.5, top_p=0.9, seed=3, samples=4)},
    "5": {"format": PromptFormat(system_prompt="Be brief.", answer_prefix="user")},
    "7": {"memory": "rag", "question_language": "en", "texts": "book.txt-1a2b3c4d"},
    "8": {"queries_per_context": 4, "options": {"a": [1, 2, None], "b": {"c": "8"}}},
}

REMOVED = {"allow_truncation": False}
"""Settings that the hashes cover, but that are not recorded any more."""


def digest(*values: Any) -> str:
    text = json.dumps(values, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def told(sample: Sample) -> list[Any]:
    """The fields of a sample, with its parts in any order."""
    fields = {name: value for name, value in sample.to_dict().items() if name != "parts"}
    # Words of a list are not parts.
    parts = sorted((list(part) for part in sample.parts if part.role != "word"), key=str)
    return [fields, parts]


def made(task: str, length: int, language: str, tokenizer: Any, **options: Any) -> str:
    """Return the hash of two samples, or the parameter that is refused: most often a length."""
    try:
        data = Dataset(task, length, language, tokenizer, **{"num_samples": 2, **options})
        return digest(*[told(sample) for sample in data])
    except ParameterError as error:
        return f"refused: {error.parameter}"
    except MissingWordingError:
        return "refused: wording"


def samples(kind: str, places: Iterable[tuple[str, str, int]]) -> Iterator[tuple[str, str]]:
    for task, language, length in places:
        yield f"{task} {language} {length}", made(task, length, language, make_tokenizer(kind))


def further() -> Iterator[tuple[str, str]]:
    for task, options in FURTHER.items():
        yield task, made(task, 2048, "da", make_tokenizer("bytelevel"), **options)
    # This tokenizer merges text across units, so whole prompts are tokenized.
    for task in ("niah_single_2", "niah_multikey_2", "vt", "fwe"):
        yield f"{task}, merging", made(task, 2048, "da", make_tokenizer("merging"))


def prompts() -> Iterator[tuple[str, str]]:
    """Prompts of each family of chat templates, except those with a date."""
    backend = make_tokenizer("bytelevel").backend
    undated = {name: text for name, text in FAMILIES.items() if "strftime" not in text}
    # One tokenizer for each family, which counts the haystack once.
    made_once = {
        family: tokens.FastTokenizer(backend, family, SPECIAL, template)
        for family, template in undated.items()
    }
    for (family, tokenizer), (way, put) in itertools.product(made_once.items(), FORMATS.items()):
        try:
            frame = put.frame(tokenizer)
            read = frame.prompt("A text.\n", " Answer: "), frame.messages("A text.\n", " Answer: ")
            counted = made("niah_single_2", 1500, "da", tokenizer, format=put)
            yield f"{family}, {way}", digest(read, frame.template, counted)
        except ParameterError as error:
            yield f"{family}, {way}", f"refused: {error.parameter}"


def names() -> Iterator[tuple[str, str]]:
    for number, options in NAMES.items():
        values = {"model": "lille", "task": "qa_1", "language": "da", "length": 4096, **options}
        cell = Cell(**values)
        settings = {**cell.settings(), **REMOVED}
        # They are newer than the hashes.
        for name in ("question_language", "family"):
            if not settings[name]:
                del settings[name]
        text = json.dumps(settings, sort_keys=True)
        paths = f"{cell.questions('runs')} {cell.answers('runs')}"
        yield number, f"{paths} {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def tables() -> Iterator[tuple[str, str]]:
    """Tables of `analysis.ipynb` for a small run, and the files of the explorer."""
    with tempfile.TemporaryDirectory() as place:
        runs = write_runs(Path(place) / "runs")
        for task, model in itertools.product(("vt", "cwe", "qa_2"), ("good", "poor")):
            write_run(runs, model, task, "da", 1500, count=12)
            write_run(runs, model, task, "da", 1500, count=5, knobs={}, seed=9)
        scores = analysis.scores(analysis.read_predictions(runs))
        drawn = {"resamples": 200, "seed": 0}
        both = ["good", "poor"]
        averages = analysis.by_length(scores)
        shown = {
            "scores": scores,
            "summary": analysis.summary(scores, 85.6),
            "by_length": averages,
            "effective_lengths": analysis.effective_lengths(scores, 85.6, **drawn),
            "accuracy": analysis.accuracy(scores),
            "by_depth": analysis.by_depth(scores, 10),
            "two_by_two": analysis.two_by_two(scores, both, by=("language", "length"), **drawn),
            "errors": analysis.errors(scores),
        }
        for name, table in shown.items():
            plain = table.drop(columns=[c for c in table if c in ("file", "parts")])
            yield name, digest([*map(str, plain)], plain.to_csv(float_format="%.9g"))
        site.write(runs, Path(place) / "out")
        for path in sorted((Path(place) / "out").rglob("*.json")):
            name = path.relative_to(Path(place) / "out").as_posix()
            content = json.loads(path.read_text("utf-8"))
            if path.name == "cell.json":
                content["settings"] |= REMOVED
            yield f"explorer: {name}", digest(content)


def kept() -> dict[str, dict[str, str]]:
    return json.loads(FILE.read_text("utf-8"))


def check(kind: str, places: Iterable[tuple[str, str, int]]) -> None:
    if kind == "llama2" and not (SHARED / "tokenizers" / "llama2").exists():
        pytest.skip("needs the tokenizer of Llama 2")
    wanted, here = kept()[f"samples {kind}"], dict(samples(kind, places))
    assert len(wanted) == len(PLACES)
    assert here == {place: wanted[place] for place in here}


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_those_of_before(kind):
    """Danish and English; the other languages with one tokenizer at one length."""
    check(kind, [place for place in PLACES if in_short_test(kind, *place)])


def in_short_test(kind: str, task: str, language: str, length: int) -> bool:
    if language in ("da", "en"):
        return kind == "words" or length == 1500
    return kind == "words" and length == 1500


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_other_samples_are_those_of_before(kind):
    others = [place for place in PLACES if not in_short_test(kind, *place)]
    check(kind, random.Random(kind).sample(others, tries(len(others))))


@pytest.mark.parametrize("part", [further, prompts, names, tables], ids=lambda part: part.__name__)
def test_the_rest_is_that_of_before(part):
    assert dict(part()) == kept()[part.__name__]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    whole = {f"samples {kind}": dict(samples(kind, PLACES)) for kind in KINDS}
    whole |= {part.__name__: dict(part()) for part in (further, prompts, names, tables)}
    FILE.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    sys.exit(0)
