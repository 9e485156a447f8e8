"""Questions by the folder."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess

import pytest

from conftest import ROOT
from rulerlib import commands as cli
from rulerlib import making
from rulerlib.dataset import Dataset
from rulerlib.errors import RunMismatchError
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
        ("--length 4096,x", "length is '4096,x'"), ("--length 5", "at least"),
        ("--language xx", "language is 'xx'"), ("--samples 0", "num_samples is 0"),
        ("--seed -1", "seed is -1"), ("-p chat", "p is 'chat'"), ("--language da,da", "differ"),
        ("--tokenizer nobody/knows", "nobody/knows"), ("-p answer_prefix=up", "answer_prefix"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_told_before_anything_is_written(tmp_path, capsys, option, message):
    words = ["make", "vt", str(tmp_path / "q"), "--tokenizer", "words", *option.split()]
    assert cli.main(words) == 2
    assert message in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
    assert not (tmp_path / "q").exists()


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")
def test_a_secret_seed_is_verified_as_the_book_says(tmp_path):
    def hashed(command, seed):
        words = f"make vt secret --length 1000 --language en --tokenizer words --seed {seed}"
        assert cli.main([*words.split(), "--samples", "3"]) == 0
        return subprocess.run(command, shell=True, check=False).returncode

    def inside(name):
        (tmp_path / name).mkdir()
        return contextlib.chdir(tmp_path / name)

    (find,) = re.findall(r"^find secret .*$", (ROOT / "book/harness.md").read_text(), re.MULTILINE)
    with inside("ours"):
        assert hashed(find, 2**62 + 5) == 0
    published = tmp_path / "ours/published.txt"
    assert published.read_text().count("validation.jsonl") == 1
    for name, seed, code in (("theirs", 2**62 + 5, 0), ("other", 2**62 + 4, 1)):
        with inside(name):
            assert hashed(f"sha256sum --status --check {published}", seed) == code


def test_errors_have_their_kinds(tmp_path):
    making.write(SMALL, tmp_path)
    with pytest.raises(RunMismatchError, match="seed = 7"):
        making.write({**SMALL, "seed": 8}, tmp_path)
