"""A name means one folder; limits and fingerprints are read without any heavy package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rulerlib import checkpoints, files, models
from rulerlib.errors import ParameterError
from rulerlib.memory import presets
from rulerlib.memory.suites import Recipe
from rulerlib.memory.work import Work
from rulerlib.parameters import Parameters
from rulerlib.store.cell import Cell


def scaled(length, **scaling):
    """Return the configuration of a model with scaled RoPE."""
    return {"max_position_embeddings": length, "rope_scaling": scaling}


YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
LINEAR = {"rope_type": "linear", "factor": 8.0}
BY_LAYER = {"full_attention": LINEAR, "sliding_attention": {"rope_type": "default"}}

# The configuration of a model, and the length that vLLM derives from it.
LIMITS = {
    "Llama 2": ({"max_position_embeddings": 4096}, 4096),
    "GPT-2": ({"n_positions": 1024}, 1024),
    "several lengths": ({"max_position_embeddings": 8192, "max_seq_len": 2048}, 2048),
    "Qwen2.5 with YaRN": (scaled(32768, **YARN), 131072),
    "linear": (scaled(4096, type="linear", factor=2.5), 10240),
    "dynamic": (scaled(2048, rope_type="dynamic", factor=4), 8192),
    "Llama 3.1": (scaled(131072, **LLAMA), 131072),
    "Phi 3.5": (scaled(131072, type="longrope", factor=32), 131072),
    "transformers 5": ({"max_position_embeddings": 32768, "rope_parameters": YARN}, 131072),
    "by layer": ({"max_position_embeddings": 4096, "rope_parameters": BY_LAYER}, 32768),
    "Gemma 3": ({"text_config": {"model_type": "gemma3_text", **scaled(131072, **LINEAR)}}, 131072),
    "no length": ({"text_config": None, "rope_scaling": YARN}, None),
}


@pytest.mark.parametrize(("config", "limit"), LIMITS.values(), ids=LIMITS)
def test_the_limit_of_a_model_is_derived_from_its_configuration(tmp_path, config, limit):
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert checkpoints.limit(str(tmp_path)) == limit


def test_max_model_len_takes_the_place_of_the_stated_limit(tmp_path):
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 2048}', encoding="utf-8")
    for given, limit in ((None, 2048), (512, 512), (8192, 8192)):
        assert models.load(str(tmp_path), "transformers", max_model_len=given).limit == limit
    with pytest.raises(ParameterError, match="max_model_len is '8192'"):
        models.load(str(tmp_path), "transformers", max_model_len="8192")


def test_a_limit_that_cannot_be_read_is_one_sentence(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    assert checkpoints.limit(str(tmp_path)) is None
    for text, said in (
        ('{"max_position', r"a folder whose config\.json can be read"),
        ('{"seq_length": -1}', r"seq_length is -1, but must be a positive number in config\.json"),
        ('{"max_seq_len": true}', "max_seq_len is True"),
        (json.dumps(scaled(2048, type="linear", factor="4")), "factor is '4'"),
    ):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        with pytest.raises(ParameterError, match=said) as caught:
            checkpoints.limit(str(tmp_path))
        assert "\n" not in str(caught.value)


def test_a_fingerprint_decides_on_the_weights(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"12345678")
    first = checkpoints.fingerprint(str(tmp_path))
    assert first == checkpoints.fingerprint(str(tmp_path))
    weights.write_bytes(b"12345679")
    second = checkpoints.fingerprint(str(tmp_path))
    (tmp_path / "README.md").write_text("a", encoding="utf-8")
    assert first != second == checkpoints.fingerprint(str(tmp_path))
    # Too large to be read whole: then its size and blocks all over it decide.
    monkeypatch.setattr(files, "HASHED_BYTES", 4)
    content = bytes(range(256)) * 8192
    seen = set()
    for changed in (None, 0, len(content) // 2 + 4096, len(content) - 1):
        # A layer of one part in sixteen, or the last byte.
        more = [] if changed is None else range(changed, min(changed + 131072, len(content)))
        written = bytearray(content)
        for at in more:
            written[at] ^= 255
        weights.write_bytes(written)
        seen.add(checkpoints.fingerprint(str(tmp_path)))
    weights.write_bytes(content + b"1")
    seen.add(checkpoints.fingerprint(str(tmp_path)))
    assert len(seen) == 5


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one model, whose small files are all that is asked for."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    snapshot = tmp_path / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(
        json.dumps({"max_position_embeddings": 512}), encoding="utf-8"
    )
    calls = []

    def download(name, allow_patterns):
        calls.append((name, allow_patterns))
        if name != "owner/name":
            raise FileNotFoundError("Repository not found.\nPlease check the name.")
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    checkpoints._downloaded.cache_clear()
    yield calls
    checkpoints._downloaded.cache_clear()


def test_a_model_of_the_hub_is_asked_for_its_small_files_once(hub):
    assert checkpoints.limit("owner/name") == 512
    assert checkpoints.fingerprint("owner/name") == "owner/name@0123abc"
    [(name, patterns)] = hub
    assert name == "owner/name"
    assert not any("safetensors" in pattern or "bin" in pattern for pattern in patterns)


def test_a_model_that_the_hub_does_not_have_is_one_sentence(hub):
    for read in (checkpoints.limit, checkpoints.fingerprint, checkpoints.small_files):
        with pytest.raises(ParameterError) as caught:
            read("owner/other")
        assert str(caught.value) == (
            "model is 'owner/other', but must be a model that can be found on the hub"
            " (Repository not found.)."
        )


NAMES = [
    "x" * 400, "o/" + "x" * 400, "~nosuchuser", "~nosuchuser/x", "a/b/c", "..", "/", "../../x/y",
    "a\nb", "o/a\nb", "a\0b", "\ud800", "o/\ud800", " ", "", "\x1b[2J", "a\u202eb", "x:y", "o/x:y",
    7, None, ["a"], b"lille", Path("nowhere"),
]  # fmt: skip


@pytest.mark.parametrize("engine", models.ENGINES)
@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name!r:.20}")
def test_any_name_of_a_model_is_one_sentence_or_the_name_of_a_folder(engine, name, tmp_path):
    """Of a run, of a memory's work, and of the engine itself."""
    options = {"base_url": "http://localhost:1/v1", "tokenizer": "words"}
    given = {"engine": engine, "engine_options": options if engine == "openai" else {}}
    made = []
    for make in (
        lambda: Parameters("niah_single_2", model=name, **given),
        lambda: Work(Recipe("episodic", 2), presets.load("oracle"), model=name, **given),
        lambda: models.load(name, engine, **given["engine_options"]),
    ):
        try:
            made.append(make())
        except ParameterError as error:
            text = str(error)
            assert re.match("model is ", text)
            assert text.isprintable()
            assert len(text) < 400
    if engine not in ("openai", "reference"):
        assert made == []
    elif made:
        run, job, model = made
        for short in (run.name, job.cell.model, checkpoints.short_name(model.name)):
            folder = Cell(short, "qa_1", "da", 512).folder(tmp_path)
            folder.mkdir(parents=True, exist_ok=True)
            assert folder.parents[2] == tmp_path
        assert {type(run), type(job)} == {Parameters, Work}
