"""`rulerlib make` writes the questions of datasets to a folder."""

from __future__ import annotations

import pytest

from rulerlib import commands as cli
from rulerlib import making
from rulerlib.dataset import Dataset
from rulerlib.samples import Sample, read


def test_make_writes_the_samples_of_a_dataset(tmp_path, capsys):
    words = "niah_multikey_1,vt q --length 1000,1200 --language en --tokenizer words --samples 4"
    words += " --seed 3 -p queries_per_context=2 -p chat=false -p tokens_to_generate=60"
    words = words.replace(" q ", f" {tmp_path / 'q'} ").split()
    with pytest.raises(SystemExit):
        cli.main(["make", "vt"])
    # vt has no such parameter, so nothing is written.
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
    # A second call is accepted, another seed is not.
    assert cli.main(["make", *words, "-p", "num_needle_k=3"]) == 0
    assert cli.main(["make", *words, "-p", "num_needle_k=3", "--seed", "4"]) == 2
    assert "seed = 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--length 4096,x", "length is 'x'"), ("--length 5", "at least"),
        ("--language xx", "language is 'xx'"), ("--samples 0", "num_samples is 0"),
        ("--seed -1", "seed is -1"), ("-p chat", "p is 'chat'"), ("--language da,da", "duplicates"),
        ("--tokenizer nobody/knows", "nobody/knows"), ("-p answer_prefix=up", "answer_prefix"),
    ],
)  # fmt: skip
def test_invalid_options_are_named_before_anything_is_written(tmp_path, capsys, option, message):
    words = ["make", "vt", str(tmp_path / "q"), "--tokenizer", "words", *option.split()]
    assert cli.main(words) == 2
    assert message in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
    assert not (tmp_path / "q").exists()
