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
from rulerlib.sweep.models import PlannedModel


def test_the_limit_of_a_model_is_read_from_its_configuration(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    config = tmp_path / "config.json"
    assert checkpoints.limit(str(tmp_path)) is None
    for text, limit in (
        ('{"max_position_embeddings": 2048}', 2048),
        ('{"n_positions": 1024}', 1024),
        ('{"text_config": {"max_position_embeddings": 4096}}', 4096),
        ('{"text_config": null}', None),
        ("[]", None),
    ):
        config.write_text(text, encoding="utf-8")
        assert checkpoints.limit(str(tmp_path)) == limit
    config.write_text('{"max_position', encoding="utf-8")
    with pytest.raises(ParameterError, match=r"a folder whose config\.json can be read") as caught:
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
    """Of a run, of a memory's work, of a sweep, and of the engine itself."""
    options = {"base_url": "http://localhost:1/v1", "tokenizer": "words"}
    given = {"engine": engine, "engine_options": options if engine == "openai" else {}}
    made = []
    for make in (
        lambda: Parameters("niah_single_2", model=name, **given),
        lambda: Work(Recipe("episodic", 2), presets.load("oracle"), model=name, **given),
        lambda: PlannedModel.from_settings("m", {"model": name, **given}),
        lambda: models.load(name, engine, **given["engine_options"]),
    ):
        try:
            made.append(make())
        except ParameterError as error:
            text = str(error)
            assert re.match(r"(models\.m(\.model)?|model) is ", text)
            assert text.isprintable()
            assert len(text) < 400
    if engine not in ("openai", "reference"):
        assert made == []
    elif made:
        run, job, entry, model = made
        for short in (run.name, job.cell.model, checkpoints.short_name(model.name)):
            folder = Cell(short, "qa_1", "da", 512).folder(tmp_path)
            folder.mkdir(parents=True, exist_ok=True)
            assert folder.parents[2] == tmp_path
        assert {type(run), type(job), entry.model} == {Parameters, Work, name}
