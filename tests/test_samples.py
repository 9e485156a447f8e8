"""Records and their files: round trips, and errors that name the line."""

from __future__ import annotations

import pytest
from helpers_store import write_records
from helpers_tasks import ROLES
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import samples
from rulerlib.errors import DataError
from rulerlib.samples import Part, Prediction, Sample, in_order

text = st.text(max_size=40)
made_parts = st.lists(
    st.builds(
        lambda role, start, size, *more: Part(role, start, start + size, *more),
        st.sampled_from(sorted(ROLES)),
        st.integers(0, 10),
        st.integers(0, 10),
        st.none() | text,
        st.none() | text,
        st.none() | st.integers(0, 100) | st.floats(0, 100),
        st.none() | st.integers(0, 10**7),
    ),
    max_size=6,
).map(in_order)
numbers = st.lists(st.integers(0, 10**7), max_size=4)
depths = st.lists(st.floats(0, 100), max_size=4)
made_samples = st.builds(
    Sample,
    index=st.integers(0, 10**6),
    input=st.text(min_size=20, max_size=40),
    outputs=st.lists(text, max_size=3),
    length=st.integers(0, 10**7),
    length_w_model_temp=st.integers(0, 10**7),
    answer_prefix=text,
    token_position_answer=st.none() | st.integers(0, 10**7),
    task=text,
    language=text,
    parts=made_parts,
    depths=depths,
    token_positions=numbers,
    context_id=st.none() | st.integers(0, 100),
    golds=st.lists(st.lists(text, max_size=2), max_size=2),
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


@pytest.mark.hypothesis
@pytest.mark.parametrize(
    ("records", "kind"),
    [(made_samples, Sample), (made_predictions, Prediction)],
    ids=["samples", "predictions"],
)
def test_records_come_back_as_they_were_written(records, kind, tmp_path_factory):
    path = tmp_path_factory.mktemp("round") / "file.jsonl"

    @settings(max_examples=30)
    @given(st.lists(records, max_size=4))
    def hold(written):
        write_records(path, written)
        assert list(samples.read(path, kind)) == written

    hold()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b'{"index": 2, "inp', "Invalid JSON"),
        (b"[1, 2]", "must be "),
        (b'{"index": 2, "outputs": ["2"]}', "the field 'input' is missing"),
        (b'{"index": 2, "input": "\xff", "outputs": []}', "Invalid JSON"),
        (
            b'{"index": 2, "input": 3, "outputs": []}',
            "the field 'input' is 3, but must be a valid string",
        ),
        (b"[" * 10**5, "Invalid JSON"),
    ],
)
def test_a_damaged_line_is_named_with_its_file(line, what, five):
    lines = five.read_bytes().split(b"\n")
    lines[2] = line
    five.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError) as caught:
        list(samples.read(five, Sample))
    message = str(caught.value)
    assert message.startswith(f"{five}, line 3: {what}")
    assert "\n" not in message


def test_a_file_that_is_not_there():
    for reader in (lambda path: list(samples.read(path, Sample)), samples.read_object):
        with pytest.raises(DataError, match=r"^/no/such/file\.jsonl: cannot be read \(No such"):
            reader("/no/such/file.jsonl")


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"a": "\xff"}', b"[" * 10**5])
def test_a_damaged_object_is_named(tmp_path, damage):
    (tmp_path / "x.json").write_bytes(damage)
    with pytest.raises(DataError, match=r"x\.json: (damaged|not UTF-8) \(.*\)\.$"):
        samples.read_object(tmp_path / "x.json")
