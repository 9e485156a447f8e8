"""The records and their files: whole or not there, read back as written, damage named by line."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import killed, python
from rulerlib import samples
from rulerlib.errors import DataError, ParameterError
from rulerlib.samples import Prediction, Sample

text = st.text(max_size=40)
numbers = st.lists(st.integers(0, 10**7), max_size=4)
depths = st.lists(st.floats(0, 100), max_size=4)
made_samples = st.builds(
    Sample,
    index=st.integers(0, 10**6),
    input=text,
    outputs=st.lists(text, max_size=3),
    length=st.integers(0, 10**7),
    length_w_model_temp=st.integers(0, 10**7),
    answer_prefix=text,
    token_position_answer=st.none() | st.integers(0, 10**7),
    task=text,
    language=text,
    depths=depths,
    token_positions=numbers,
    context_id=st.none() | st.integers(0, 100),
)
made_predictions = st.builds(
    Prediction,
    index=st.integers(0, 10**6),
    input=text,
    outputs=st.lists(text, max_size=3),
    pred=text,
    others=st.dictionaries(text, numbers | text, max_size=3),
    truncation=st.integers(-1, 10**6),
    length=st.integers(-1, 10**7),
)

FIVE = [Sample(index=i, input=f"Blåbærgrød {i}\n", outputs=[str(i)]) for i in range(5)]


@pytest.fixture
def five(tmp_path):
    """A file of five samples."""
    path = tmp_path / "validation.jsonl"
    samples.write(path, FIVE)
    return path


# --- Round trips ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "kind"),
    [(made_samples, Sample), (made_predictions, Prediction)],
    ids=["samples", "predictions"],
)
def test_records_come_back_as_they_were_written(records, kind, tmp_path_factory):
    path = tmp_path_factory.mktemp("round") / "file.jsonl"

    @settings(max_examples=60)
    @given(st.lists(records, max_size=4))
    def hold(written):
        assert samples.write(path, written) == len(written)
        assert list(samples.read(path, kind)) == written
        found = list(samples.read_unfinished(path, kind))
        assert [record for record, _ in found] == written
        assert [end for _, end in found][-1:] == [path.stat().st_size][: len(written)]

    hold()


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\r", "\x0c", "\r\n", "\x00", "\ufeff", "😀"])
def test_odd_characters_end_no_line(odd, tmp_path):
    written = [Sample(index=0, input=f"a{odd}b", outputs=[odd])]
    samples.write(tmp_path / "file.jsonl", written)
    assert list(samples.read(tmp_path / "file.jsonl", Sample)) == written


def test_a_file_is_one_record_a_line_with_ruler_s_names(five):
    lines = five.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5
    first = json.loads(lines[0])
    ruler = [
        "index",
        "input",
        "outputs",
        "length",
        "length_w_model_temp",
        "answer_prefix",
        "token_position_answer",
    ]
    assert list(first)[:7] == ruler
    assert "Blåbærgrød" in lines[0], "letters stand as they are"


def test_reading_is_a_stream(five):
    with five.open("a", encoding="utf-8") as file:
        file.write("damaged\n")
    stream = samples.read(five, Sample)
    assert [next(stream).index for _ in range(5)] == list(range(5))


def test_nvidia_s_records_are_read(tmp_path):
    path = tmp_path / "validation.jsonl"
    # As prepare.py writes it, and as call_api.py writes its prediction: fields that we lack
    # are left out, fields that it lacks have their defaults.
    record = {
        "index": 3,
        "input": "Some special magic numbers ...",
        "outputs": ["7654321"],
        "length": 4031,
        "length_w_model_temp": 4052,
        "answer_prefix": " The special magic number",
        "token_position_answer": 812,
        "max_seq_length": 4096,
        "model_template": "base",
    }
    prediction = {
        "index": 3,
        "pred": " 7654321.",
        "input": "...",
        "outputs": ["7654321"],
        "others": {},
        "truncation": -1,
        "length": 4031,
        "time": 2.5,
    }
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    (sample,) = samples.read(path, Sample)
    assert sample.outputs == ["7654321"]
    assert sample.token_position_answer == 812
    assert (sample.depths, sample.task) == ([], "")
    path.write_text(json.dumps(prediction) + "\n", encoding="utf-8")
    (read,) = samples.read(path, Prediction)
    assert (read.pred, read.truncation, read.length) == (" 7654321.", -1, 4031)


def test_nvidia_s_evaluate_finds_its_fields():
    made = json.loads(Prediction(index=0, input="a", outputs=["b"], pred="c").to_json())
    assert {"index", "input", "outputs", "pred", "others", "truncation", "length"} == set(made)


# --- Damage ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b'{"index": 2, "inp', "not valid JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b"17", "not a JSON object"),
        (b'{"index": 2, "outputs": ["2"]}', "the field 'input' is missing"),
        (b'{"input": "a"}', "the field 'index' is missing"),
        (b'{"index": 2, "input": "\xff", "outputs": []}', "not UTF-8"),
    ],
)
@pytest.mark.parametrize("reader", ["read", "read_unfinished"])
def test_a_damaged_line_is_named_with_its_file(reader, line, what, five):
    lines = five.read_bytes().split(b"\n")
    lines[2] = line
    five.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError) as caught:
        list(getattr(samples, reader)(five, Sample))
    message = str(caught.value)
    assert message.startswith(f"{five}, line 3: ")
    if reader == "read" or "UTF-8" not in what:
        assert what in message
    assert message.endswith(".")
    assert not message.endswith("..")
    assert "\n" not in message


def test_a_half_written_last_line_is_named_when_it_should_be_whole(five):
    five.write_bytes(five.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"validation\.jsonl, line 5: not valid JSON"):
        list(samples.read(five, Sample))


@pytest.mark.parametrize("cut", [1, 2, 9, 60])
def test_a_half_written_last_line_does_not_count_when_resuming(cut, five):
    whole = five.read_bytes()
    five.write_bytes(whole[:-cut])
    found = list(samples.read_unfinished(five, Sample))
    assert [record for record, _ in found] == FIVE[:4]
    for number, (_, end) in enumerate(found, 1):
        assert whole[:end].count(b"\n") == number
        assert whole[:end].endswith(b"\n")


def test_a_cut_within_a_letter_does_not_count_either(tmp_path):
    path = tmp_path / "file.jsonl"
    samples.write(path, FIVE[:1])
    with path.open("ab") as file:
        file.write('{"index": 1, "input": "å'.encode()[:-1])
    assert [record for record, _ in samples.read_unfinished(path, Sample)] == FIVE[:1]


def test_a_file_that_is_not_there():
    assert list(samples.read_unfinished("/no/such/file.jsonl", Sample)) == []
    with pytest.raises(DataError, match=r"^/no/such/file\.jsonl: cannot be read \(No such file"):
        list(samples.read("/no/such/file.jsonl", Sample))


# --- Writing --------------------------------------------------------------------------------


def test_an_error_while_writing_leaves_the_old_file(five):
    before = five.read_bytes()

    def broken():
        yield FIVE[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        samples.write(five, broken())
    assert five.read_bytes() == before
    assert os.listdir(five.parent) == [five.name], "no temporary file is left"


def test_a_full_disk_leaves_the_old_file(five):
    """The system refuses what goes beyond 4,000 bytes, as a full disk does."""
    resource = pytest.importorskip("resource")
    assert resource
    before = five.read_bytes()
    code = (
        "import resource, signal\n"
        "from rulerlib import errors, samples\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "sample = samples.Sample(index=0, input='x' * 1000, outputs=[])\n"
        "try:\n"
        f"    samples.write({str(five)!r}, [sample] * 100)\n"
        "except errors.ParameterError as error:\n"
        "    print(error)\n"
    )
    done = python(code)
    assert done.stderr == ""
    assert done.stdout.startswith(f"output is '{five}', but must be a file that can be written (")
    assert five.read_bytes() == before
    assert os.listdir(five.parent) == [five.name]


def test_a_disk_that_is_full_at_the_end_leaves_the_old_file(five, monkeypatch):
    before = five.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ParameterError, match=r"can be written \(No space left on device\)\.$"):
        samples.write(five, FIVE * 2)
    assert five.read_bytes() == before
    assert os.listdir(five.parent) == [five.name]


def test_a_folder_that_cannot_be_made(five):
    inside = five / "folder" / "file.jsonl"
    with pytest.raises(ParameterError, match=r"^output is '.*', but must be a file that"):
        samples.write(inside, FIVE)
    assert list(samples.read(five, Sample)) == FIVE


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(five):
    five.parent.chmod(0o555)
    try:
        with pytest.raises(ParameterError, match="Permission denied"):
            samples.write(five, FIVE * 2)
    finally:
        five.parent.chmod(0o755)
    assert list(samples.read(five, Sample)) == FIVE


def test_a_result_may_be_read_by_others(five):
    if os.name == "nt":
        pytest.skip("Windows has no umask")
    umask = os.umask(0)
    os.umask(umask)
    assert five.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_kill_in_the_middle_leaves_the_old_file(five):
    before = five.read_bytes()
    code = (
        "import sys, time\n"
        "from rulerlib import samples\n"
        "def slow():\n"
        "    for index in range(10**6):\n"
        "        yield samples.Sample(index=index, input='x' * 10_000, outputs=[])\n"
        "        if index == 50:\n"
        "            print('begun', flush=True)\n"
        "            time.sleep(60)\n"
        f"samples.write({str(five)!r}, slow())\n"
    )
    killed(code, after=0.05)
    assert five.read_bytes() == before
    assert samples.write(five, FIVE[:2]) == 2
    assert list(samples.read(five, Sample)) == FIVE[:2]
