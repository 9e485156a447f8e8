"""Questions by the folder, and the proof that a secret seed gives them."""

from __future__ import annotations

import json
import re

import pytest

from rulerlib import commands as cli
from rulerlib import making, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, ParameterError, RunMismatchError
from rulerlib.samples import Sample, read

SMALL = {
    "names": ["niah_single_2", "vt"], "languages": ["da", "en"], "lengths": [1000],
    "tokenizer": "words", "num_samples": 3, "seed": 7,
}  # fmt: skip


def test_make_writes_what_a_dataset_holds(tmp_path, capsys):
    words = "niah_multikey_1,vt q --length 1000,1200 --language en --tokenizer words --samples 4"
    words += " --seed 3 -p queries_per_context=2 -p chat=false -p tokens_to_generate=60"
    words = words.replace(" q ", f" {tmp_path / 'q'} ").split()
    with pytest.raises(SystemExit):
        cli.main(["make", "vt"])
    # Of these knobs none is vt's: nothing is written.
    assert cli.main(["make", *words, "-p", "num_needle_k=3"]) == 2
    assert "num_needle_k" in capsys.readouterr().err
    assert not (tmp_path / "q").exists()
    words[0] = "niah_multikey_1"
    assert cli.main(["make", *words, "-p", "num_needle_k=3"]) == 0
    written = capsys.readouterr().out.split()
    assert written == [
        str(tmp_path / f"q/en/{length}/data/niah_multikey_1/validation.jsonl")
        for length in (1000, 1200)
    ]
    wanted = Dataset(
        "niah_multikey_1", 1200, "en", "words", 4, 3, queries_per_context=2, room=60,
        knobs={"num_needle_k": 3}, format=making.PromptFormat(chat=False),
    )  # fmt: skip
    assert [*read(written[1], Sample)] == [*wanted]
    # The same again is the same; another seed is refused.
    assert cli.main(["make", *words, "-p", "num_needle_k=3"]) == 0
    assert cli.main(["make", *words, "-p", "num_needle_k=3", "--seed", "4"]) == 2
    assert "seed = 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--length 4096,x", "length is 'x'"), ("--length 5", "at least"),
        ("--language xx", "language is 'xx'"), ("--samples 0", "num_samples is 0"),
        ("--seed -1", "seed is -1"), ("-p chat", "p is 'chat'"), ("--language da,da", "repetition"),
        ("--tokenizer nobody/knows", "nobody/knows"), ("-p answer_prefix=up", "answer_prefix"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_told_before_anything_is_written(tmp_path, capsys, option, message):
    words = ["make", "vt", str(tmp_path / "q"), "--tokenizer", "words", *option.split()]
    assert cli.main(words) == 2
    assert message in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
    assert not (tmp_path / "q").exists()


def test_a_secret_seed_is_drawn_kept_back_and_verified(tmp_path, capsys):
    words = f"vt {tmp_path}/q --length 1000 --language en --tokenizer words --samples 3 --commit"
    assert cli.main(["make", *words.split()]) == 0
    printed = capsys.readouterr().out
    (digest,), (seed, *_) = re.findall(r"[0-9a-f]{64}", printed), re.findall(r"seed (\d+)", printed)
    file = tmp_path / "q/commitment.json"
    published = json.loads(file.read_text())
    assert published["sha256"] == digest
    assert seed not in file.read_text()
    assert 0 < int(seed) < 2**63
    assert cli.main(["check", "--reveal", seed, str(file)]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"It holds: seed {seed} gives the 3 questions with sha256 {digest}")
    assert told.count("\n") == 1
    assert "the 1 files beside it" in told
    # A second commitment would take the place of the first.
    assert cli.main(["make", *words.split()]) == 2
    assert "commitment.json" in capsys.readouterr().err
    assert json.loads(file.read_text()) == published
    # Alone, as somebody else gets it.
    (alone := tmp_path / "alone.json").write_text(file.read_text())
    assert making.reveal(alone, int(seed))[0]
    assert cli.main(["check", "--reveal", str(int(seed) ^ 1), str(alone)]) == 1
    told = capsys.readouterr().out
    assert "It does not hold" in told
    assert told.count("\n") == 1


def test_one_byte_of_a_question_or_setting_is_told(tmp_path):
    digest = making.commit(SMALL, tmp_path)
    file, other = tmp_path / "commitment.json", tmp_path / "en/1000/data/vt/validation.jsonl"
    assert making.reveal(file, 7)[0]
    before = other.read_bytes()
    other.write_bytes(before[:200] + bytes([before[200] ^ 1]) + before[201:])
    holds, told = making.reveal(file, 7)
    assert not holds
    assert f"{other} holds other questions" in told
    # More questions than were committed to are no harm.
    other.write_bytes(before + before.splitlines(True)[0])
    assert making.reveal(file, 7)[0]
    for changed, reason in (("num_samples", "another seed"), ("tokenizer_fingerprint", "was 'x'")):
        proof = json.loads(file.read_text())
        if changed in proof["settings"]:
            proof["settings"][changed] = 2
        else:
            proof["datasets"][0][changed], proof["sha256"] = "x", "0" * 64
        (tmp_path / "changed.json").write_text(json.dumps(proof))
        holds, told = making.reveal(tmp_path / "changed.json", 7)
        assert not holds
        assert reason in told
        assert digest in told


def test_what_is_published_tells_nothing_of_the_seed(tmp_path):
    """Whatever the task: all but the hash is the same for two seeds."""
    published = []
    names = [name for name, row in tasks.TASKS.items() if row.family.name in ("niah", "drop", "qa")]
    for seed in (1, 2**62 + 5):
        stated = {**SMALL, "names": names, "languages": ["en"], "lengths": [2500], "seed": seed}
        making.commit({**stated, "num_samples": 1}, tmp_path / str(seed))
        proof = json.loads((tmp_path / str(seed) / "commitment.json").read_text())
        published.append({name: value for name, value in proof.items() if name != "sha256"})
    assert published[0] == published[1]


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"settings": {}, "datasets": [], "sha256": "0"}',
     '{"settings": {"names": 3}, "datasets": [], "sha256": "0"}',
     '{"settings": {"format": 3}, "datasets": [], "sha256": "0"}'],
)  # fmt: skip
def test_what_is_no_commitment_is_told_in_a_sentence(tmp_path, capsys, content):
    (tmp_path / "x.json").write_text(content)
    assert cli.main(["check", "--reveal", "3", str(tmp_path / "x.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_errors_have_their_kinds(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        making.reveal(tmp_path / "nowhere.json", 3)
    with pytest.raises(ParameterError, match="seed is -3"):
        making.reveal(tmp_path / "nowhere.json", -3)
    making.write(SMALL, tmp_path)
    with pytest.raises(RunMismatchError, match="seed = 7"):
        making.commit({**SMALL, "seed": 8}, tmp_path)
    assert not (tmp_path / "commitment.json").exists()
