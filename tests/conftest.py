"""Fixtures: tokenizers of every kind, real data, and the built site.

``words`` needs the standard library only, ``llama2`` is the real SentencePiece tokenizer (skipped
if missing), ``bytelevel`` and ``metaspace`` are small BPEs trained here. Tokens of ``nasty`` cross
spaces, newlines and sentence ends, so the count of a text is not the sum of its parts.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import hypothesis.core
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture.providers import Constants, HypothesisProvider

from rulerlib import languages, tokens
from rulerlib.haystack import sentences

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("RULERLIB_TEST_DATA", ROOT.parent / "shared" / "data"))

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# No time limit and no memory of earlier runs; `derandomize` would override the seed that
# `pytest_runtest_setup` sets.
settings.register_profile(
    "rulerlib",
    deadline=None,
    derandomize=False,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("rulerlib")

# Otherwise Hypothesis also draws constants of the modules imported so far, which depend on the
# other tests.
assert hasattr(HypothesisProvider, "_local_constants"), "this Hypothesis keeps them elsewhere"
HypothesisProvider._local_constants = Constants()

TOKENIZERS = ("words", "bytelevel", "metaspace", "llama2", "nasty")

# Set to 1 to run the randomized tests marked `long` too, or to a share of their tries.
LONG = "RULERLIB_LONG"

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>\n"
    "{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests marked ``long`` by default."""
    if os.environ.get(LONG):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed the examples of a test by its name and ``--hypothesis-seed``."""
    seed = item.config.getoption("hypothesis_seed")
    hypothesis.core.global_force_seed = item.nodeid if seed is None else f"{item.nodeid} {seed}"


def tries(whole: int) -> int:
    """Return how often a test marked ``long`` tries."""
    return max(1, round(whole * float(os.environ[LONG])))


def shared(name: str) -> Path:
    """Return a file or folder of real data; skip the test if it is missing."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs {name} in {SHARED} (set RULERLIB_TEST_DATA to where it is)")
    return path


def python(
    code: str, *, hash_seed: str = "random", flags: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that finds this rulerlib."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONHASHSEED": hash_seed,
    }
    return subprocess.run(
        [sys.executable, *flags, "-c", code], env=env, capture_output=True, text=True, timeout=300
    )


def _trained(kind: str) -> tokens.FastTokenizer:
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    special = ["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|end|>"]
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    options = {"vocab_size": 1500, "special_tokens": special, "show_progress": False}
    texts = [line for code in ("da", "en") for line in sentences(languages.load(code).essays)]
    if kind == "bytelevel":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        options["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    elif kind == "metaspace":
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.decoder = decoders.Metaspace()
    else:
        # Without a pre-tokenizer, a token may cross from one unit to the next. It is trained on the
        # seams of all three haystacks.
        packs = [languages.load(code) for code in ("da", "en")]
        seams = ["\n".join([pack.noise] * 4) for pack in packs]
        needles = [
            "\n".join(
                pack.fill("niah", "needle", key="a-b", value=str(i), **pack.label("numbers", 2))
                for i in (1, 2)
            )
            for pack in packs
        ]
        texts = [" ".join(texts[i : i + 3]) for i in range(0, len(texts), 3)]
        texts += (seams + needles) * 8
        options["initial_alphabet"] = list("0123456789abcdefghijklmnopqrstuvwxyzæøåABCDEF-'\n")
        options["vocab_size"] = 900
    backend.train_from_iterator(texts, trainers.BpeTrainer(**options))
    if kind != "nasty":
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", backend.token_to_id("<s>"))]
        )
    named = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return tokens.FastTokenizer(backend, kind, named, CHAT_TEMPLATE)


@functools.cache
def make_tokenizer(kind: str) -> tokens.Tokenizer:
    """Return one of ``TOKENIZERS``."""
    if kind == "words":
        return tokens.Words()
    if kind == "llama2":
        llama2 = tokens.load(str(shared("tokenizers/llama2")))
        llama2.chat_template = CHAT_TEMPLATE
        return llama2
    return _trained(kind)


_references: dict[tuple[str, str | None], object] = {}


def reference(tokenizer: tokens.FastTokenizer):
    """Return the same tokenizer of `transformers`; skip the test if that is missing."""
    transformers = pytest.importorskip("transformers")
    key = tokenizer.name, tokenizer.chat_template
    if key not in _references:
        _references[key] = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer.backend,
            **tokenizer.special_tokens,
            chat_template=tokenizer.chat_template,
        )
    return _references[key]


@pytest.fixture(scope="session", params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> tokens.Tokenizer:
    """Each tokenizer in turn."""
    return make_tokenizer(request.param)


@pytest.fixture(scope="session")
def words() -> tokens.Tokenizer:
    return make_tokenizer("words")


@pytest.fixture(scope="session")
def bytelevel() -> tokens.FastTokenizer:
    return make_tokenizer("bytelevel")


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """A file of five samples."""
    from helpers_store import FIVE, write_records

    path = tmp_path / "validation.jsonl"
    write_records(path, FIVE)
    return path


@pytest.fixture
def student(tmp_path, monkeypatch):
    """Replace every model by one that answers from its prompt."""
    from helpers_memory import Student

    from rulerlib import models

    made = Student(tmp_path)
    monkeypatch.setattr(models, "load", lambda *_, **__: made)
    return made


@pytest.fixture(scope="module")
def browser():
    """A browser that can reach only this machine.

    Closed after each module, because its event loop disturbs other tests.
    """
    from helpers_book import chromium

    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the book's pages; the tests that read it run in one process."""
    from helpers_book import whole_book

    return whole_book(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def address(site):
    from helpers_book import served

    with served(site) as address:
        yield address
