"""Names, context limits and fingerprints of models on disk and on the hub."""

from __future__ import annotations

import json

import pytest

from rulerlib import checkpoints, files, models
from rulerlib.errors import ParameterError
from rulerlib.runs import Run
from rulerlib.store import Cell


def scaled(length, **scaling):
    """Return the configuration of a model with scaled RoPE."""
    return {"max_position_embeddings": length, "rope_scaling": scaling}


YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
LINEAR = {"rope_type": "linear", "factor": 8.0}
BY_LAYER = {"full_attention": LINEAR, "sliding_attention": {"rope_type": "default"}}

# The configuration of a model, and the length that vLLM derives from it.
LIMITS = {
    "GPT-2": ({"n_positions": 1024}, 1024),
    "several lengths": ({"max_position_embeddings": 8192, "max_seq_len": 2048}, 2048),
    "Qwen2.5 with YaRN": (scaled(32768, **YARN), 131072),
    "linear": (scaled(4096, type="linear", factor=2.5), 10240),
    "Llama 3.1": (scaled(131072, **LLAMA), 131072),
    "transformers 5": ({"max_position_embeddings": 32768, "rope_parameters": YARN}, 131072),
    "by layer": ({"max_position_embeddings": 4096, "rope_parameters": BY_LAYER}, 32768),
    "Gemma 3": ({"text_config": {"model_type": "gemma3_text", **scaled(131072, **LINEAR)}}, 131072),
    "no length": ({"text_config": None, "rope_scaling": YARN}, None),
}


@pytest.mark.parametrize(("config", "limit"), LIMITS.values(), ids=LIMITS)
def test_the_limit_of_a_model_is_derived_from_its_configuration(tmp_path, config, limit):
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert checkpoints.limit(str(tmp_path)) == limit


def test_an_unreadable_limit_is_reported_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text('{"max_position', encoding="utf-8")
    with pytest.raises(ParameterError, match=r"a folder whose config\.json can be read.*$"):
        checkpoints.limit(str(tmp_path))


def test_a_fingerprint_depends_on_the_weights(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"12345678")
    first = checkpoints.fingerprint(str(tmp_path))
    (tmp_path / "README.md").write_text("a", encoding="utf-8")
    assert checkpoints.fingerprint(str(tmp_path)) == first
    weights.write_bytes(b"12345679")
    assert checkpoints.fingerprint(str(tmp_path)) != first
    # For large files, only the size and some blocks are hashed.
    monkeypatch.setattr(files, "HASHED_BYTES", 4)
    seen = set()
    for written in (bytes(9999), bytes(9998) + b"x", bytes(10000)):
        weights.write_bytes(written)
        seen.add(checkpoints.fingerprint(str(tmp_path)))
    assert len(seen) == 3


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one model; return the calls that download its files."""
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


def test_only_the_small_files_of_a_hub_model_are_downloaded(hub):
    assert checkpoints.limit("owner/name") == 512
    assert checkpoints.fingerprint("owner/name") == "owner/name@0123abc"
    [(name, patterns)] = hub
    assert name == "owner/name"
    assert not any("safetensors" in pattern or "bin" in pattern for pattern in patterns)


def test_a_model_missing_on_the_hub_is_reported_in_one_line(hub):
    message = "'owner/other'.*can be found on the hub .Repository not found..\\."
    with pytest.raises(ParameterError, match=f"{message}$") as caught:
        checkpoints.limit("owner/other")
    assert "\n" not in str(caught.value)


NAMES = ["x" * 400, "~nosuchuser/x", "../../x/y", "a\0b", "", 7]


@pytest.mark.parametrize("engine", models.ENGINES)
@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name!r:.20}")
def test_a_model_name_is_rejected_or_stays_inside_the_results_folder(engine, name, tmp_path):
    options = {"base_url": "http://localhost:1/v1", "tokenizer": "words"}
    options = options if engine == "openai" else {}
    try:
        run = Run("niah_single_2", model=name, engine=engine, engine_options=options)
    except ParameterError as error:
        text = str(error)
        assert text.startswith("model is ")
        assert text.isprintable()
        assert len(text) < 400
    else:
        assert engine in ("openai", "reference")
        folder = Cell(run.name, "qa_1", "da", 512).folder(tmp_path)
        folder.mkdir(parents=True)
        assert folder.parents[2] == tmp_path
