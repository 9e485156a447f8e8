"""Properties of every task: exact lengths, the same samples in every process, one-line errors.

The tests of each family read its prompts; these tests do not.
"""

from __future__ import annotations

import cProfile
import re
from dataclasses import fields

import pytest
from helpers_tasks import check_lengths, planned, smallest_of

from conftest import make_tokenizer
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError, RulerError
from rulerlib.tasks import RULER, all_tasks

TASKS = all_tasks()

each_task = pytest.mark.parametrize("task", TASKS)


def made(task, length=1200, tokenizer="words", language="da", **options):
    """A dataset of a length, or of one that the task and the tokenizer have tokens enough for."""
    # Five names have more than RULER's 30 tokens with the small tokenizers of these tests.
    room = {"room": 48} if task == "vt" and tokenizer != "words" else {}
    options = {"num_samples": 4, **room, **options}
    try:
        return Dataset(task, length, language, tokenizer, **options)
    except ParameterError as error:
        if length < 1200:
            raise
        return Dataset(task, smallest_of(error) + 300, language, tokenizer, **options)


@each_task
@pytest.mark.parametrize(
    ("kind", "language"), [("words", "en"), ("bytelevel", "da"), ("metaspace", "da"),
                           ("nasty", "en")],
)  # fmt: skip
def test_lengths_are_exact_and_never_over_budget(task, kind, language):
    data = made(task, tokenizer=make_tokenizer(kind), language=language, num_samples=2)
    # A document or a passage that did not fit may be longer than those that were looked at.
    unit = (1.5 if data.row.family in ("qa", "drop") else 1) * data.maker.filler.longest
    for sample in data:
        longest = check_lengths(data, sample)
        assert task == "drop_1" or longest >= data.length - unit - 40
        values = [sample.input[part.start : part.end] for part in sample.parts_of("value")]
        named = {*values} & {*sample.outputs}
        assert not values or named or task[:3] in ("dro", "sem", "spa", "mrc")


@each_task
def test_a_sample_depends_on_its_seed_and_index_alone(task):
    data, again = made(task), made(task, num_samples=40)
    assert data[3].to_json() == again[3].to_json()
    assert data[2].input != data[3].input
    assert made(task, seed=43)[3].input != data[3].input


@pytest.mark.parametrize("task", [task for task in RULER if task not in ("cwe", "fwe")])
def test_lengths_and_tokenizers_share_their_needles(task):
    """A comparison of lengths is a paired one."""
    datasets = [made(task), made(task, 9000), made(task, tokenizer=make_tokenizer("bytelevel"))]
    assert len({tuple(data[3].outputs) for data in datasets}) == 1
    assert planned(datasets[0], 4) == planned(datasets[1], 4) == planned(datasets[2], 4)


@each_task
def test_a_length_that_is_too_small_is_told_the_smallest(task):
    with pytest.raises(ParameterError, match=r"^length is 30, but must be at least") as caught:
        made(task, 30)
    smallest = smallest_of(caught.value)
    assert all(max(one.length, one.length_w_model_temp) <= smallest for one in made(task, smallest))
    with pytest.raises(ParameterError, match=f"length is {smallest - 1}, but must be at least"):
        Dataset(task, smallest - 1, "da", "words")


NEEDLE = "niah_single_2"

# A task, what is asked of it, a knob where it is no parameter of a dataset, and what the sentence
# must say: the parameter, its value, and what is allowed; "..." stands for anything.
BAD: list[tuple[object, dict[str, object], str]] = [
    ("niah_singel_2", {}, "task is 'niah_singel_2', but must be one of niah_single_1, ... (did you"
     " mean 'niah_single_2'?)."),
    (NEEDLE, {"language": "dk"}, "language is 'dk', but must be one of ...(did you mean 'da'?)."),
    (NEEDLE, {"tokenizer": "lile"}, "model is 'lile', but must be 'lille', 'smollm2'"),
    *((NEEDLE, {name: value}, f"{name} is {value!r}, but must be a whole number, at least {least}")
      for name, value, least in [
          ("length", "4096", 1), ("num_samples", 0, 1), ("seed", -1, 0)]),
    (NEEDLE, {"length": 100}, "length is 100, but must be at least ... for niah_single_2: 128"
     " tokens to generate and the fixed part of the prompt."),
    *((NEEDLE, {"knobs": knobs}, f"knobs is {knobs!r}, but must be a dictionary such as ")
      for knobs in (None, {None: 1})),
    ("niah_single_1", {"texts": ["Godt."]}, "texts is ['Godt.'], but must be None, because niah_sin"
     "gle_1 reads none."),
    (NEEDLE, {"texts": "/no/such/file.txt"}, "but must be a text file, or a folder that has some"),
    (NEEDLE, {"texts": ["Godt.", "a\x00b"]}, "text 2: control character U+0000 at character 2."),
    (NEEDLE, {"num_needles": 2}, "knob is 'num_needles', but must be one of haystack, ...(did you"
     " mean 'num_needle_"),
    (NEEDLE, {"haystack": "esay"}, "haystack is 'esay', but must be one of noise, essay, needle"
     " (did you mean 'essay'?)."),
    (NEEDLE, {"type_needle_k": "word"}, "type_needle_k is 'word'...(did you mean 'words'?)"),
    *((NEEDLE, {"num_needle_k": count}, f"num_needle_k is {count}, but must be a whole number, at"
       " least 1 and at most 40.") for count in (0, 41)),
    (NEEDLE, {"num_needle_k": 7, "num_needle_v": 6},
     "num_needle_k * num_needle_v is 42, but must be at most 40, the number of"),
    *((NEEDLE, {"depth": depth}, f"depth is {depth!r}, but must be a number from 0 to 100")
      for depth in (101, "50", float("nan"))),
    *((NEEDLE, {"present": share}, "present is ... from 0 to 1")
      for share in (-0.1, 1.5, "half", True, float("nan"))),
    (NEEDLE, {"queries_per_context": 2}, "queries_per_context is 2, but must be at most 1 for niah_"
     "single_2: each key is asked for once, and num_needle_k sets how many there are"),
    ("niah_multikey_2", {"queries_per_context": 2, "depth": 50}, "at most 1 for niah_multikey_2: a"
     " depth that is set"),
    ("vt", {"haystack": "needle"}, "haystack is 'needle', but must be one of noise, essay"),
    ("vt", {"few_shot": "yes"}, "few_shot is 'yes', but must be True or False"),
    ("vt", {"num_chains": 100, "num_hops": 99}, "num_chains * (num_hops + 1) is 10000"),
    ("cwe", {"freq_cw": 3}, "freq_cw is 3, but must be more than freq_ucw (3)"),
    ("fwe", {"alpha": 0}, "alpha is 0, but must be a number above 0"),
    ("fwe", {"vocab_size": 2000, "coded_wordlen": 2}, "at most 84 with coded words of 2"),
    ("qa_1", {"num_documents": 10**12}, "must be at most 2600, all that there are"),
    ("qa_1", {"source": "nowhere.json"}, "a file that exists, or a hub name"),
    ("qa_1", {"queries_per_context": 20, "num_documents": 3},
     "num_documents is 3, but must be at least 20, which the questions"),
    ("drop_2", {"operation": "complement", "passages": 2}, "operation is 'complement', but must"),
    ("graphwalks", {"depth": 0}, "depth is 0, but must be ...at least 1 and at most 10"),
    ("records", {"queries_per_context": 2}, "at most 1 for records: a context has one question"),
    ("ladder", {"step": "harder"}, "step is 'harder', but must be one of basic, easy"),
    *(("mrcr", {"num_needles": count}, "num_needles is ...at least 2 and at most 16")
      for count in (1, 17, "2", None, 2.0)),
    ("associations", {"question_language": "en"}, "so that they share no word"),
]  # fmt: skip

# To refuse, packs and sources may be read; a look at every combination takes millions.
MOST_CALLS = 500_000


@pytest.mark.parametrize(("task", "given", "said"), BAD, ids=lambda value: str(value)[:50])
def test_what_cannot_work_is_one_sentence(task, given, said):
    own = {item.name for item in fields(Dataset)}
    options = {name: value for name, value in given.items() if name in own}
    knobs = {name: value for name, value in given.items() if name not in own}
    options = {"length": 4096, "tokenizer": "words", "knobs": knobs, **options}
    with cProfile.Profile() as profile, pytest.raises(RulerError) as caught:
        _ = Dataset(task, **options)[0]
    calls = sum(entry.callcount for entry in profile.getstats())
    # Documents have to be counted first.
    assert calls < MOST_CALLS or said.startswith("num_documents")
    message = str(caught.value)
    assert re.search(".*".join(map(re.escape, said.split("..."))), message)
    assert message.endswith(".")
    assert "\n" not in message
    # The list of all task names helps a user who mistyped one.
    assert len(message) < (1200 if message.startswith("task") else 450)
