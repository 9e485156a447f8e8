"""What holds for every task: exact lengths, one process like another, and sentences for what fails.

Each family's own tests read its prompts as a person would; here nobody reads them.
"""

from __future__ import annotations

import hashlib

import pytest
from helpers_tasks import check_lengths, planned, smallest_of

from conftest import make_tokenizer, python
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.tasks import FAMILIES, RULER, TASKS, resolve

pytestmark = pytest.mark.filterwarnings("ignore:.*repeats its texts", "ignore:The tokenizer")

each_task = pytest.mark.parametrize("task", TASKS)


def made(task, length=1200, tokenizer="words", language="da", **options):
    """A dataset of a length, or of one that the task and the tokenizer have tokens enough for."""
    options = {"num_samples": 4, **options}
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
    unit = (1.5 if data.row.family.name in ("qa", "drop") else 1) * data.maker.haystack.longest
    for sample in data:
        longest = check_lengths(data, sample)
        assert task == "drop_1" or longest >= data.length - unit - 40
        values = [sample.input[part.start : part.end] for part in sample.parts.of_role("value")]
        named = {*values} & {*sample.outputs}
        assert not values or named or task[:3] in ("dro", "sem", "spa", "mrc")


@each_task
def test_a_sample_depends_on_its_seed_and_index_alone(task):
    data, again = made(task), made(task, num_samples=40)
    assert data[3].to_line() == again[3].to_line()
    assert data[2].input != data[3].input
    assert made(task, seed=43)[3].input != data[3].input


@pytest.mark.parametrize("task", [task for task in RULER if task not in ("cwe", "fwe")])
def test_lengths_and_tokenizers_share_their_needles(task):
    """A comparison of lengths is a paired one."""
    datasets = [made(task), made(task, 9000), made(task, tokenizer=make_tokenizer("bytelevel"))]
    assert len({tuple(data[3].outputs) for data in datasets}) == 1
    assert planned(datasets[0], 4) == planned(datasets[1], 4) == planned(datasets[2], 4)


# A task of each family, and what each needs.
LENGTHS = [("niah_multikey_2", 1200), ("vt", 1200), ("cwe", 2600), ("fwe", 1200), ("qa_2", 1200),
           ("drop_3", 3000), ("episodic", 1200), ("semantic", 1200), ("spatial", 1500),
           ("passkey", 1200), ("records", 1200), ("ladder_values_medium", 1200),
           ("ladder_documents_easy", 1500)]  # fmt: skip


def test_the_bytes_do_not_depend_on_the_process():
    code = (
        "import hashlib, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from rulerlib.dataset import Dataset\n"
        f"for task, length in {LENGTHS}:\n"
        "    line = Dataset(task, length, 'da', 'words', 2)[1].to_line()\n"
        "    print(task, hashlib.sha256(line).hexdigest())\n"
    )
    done = python(code, hash_seed="7")
    here = [
        f"{task} {hashlib.sha256(made(task, length)[1].to_line()).hexdigest()}"
        for task, length in LENGTHS
    ]
    assert done.stdout.splitlines() == here, done.stderr


@each_task
def test_a_length_that_is_too_small_is_told_the_smallest(task):
    with pytest.raises(ParameterError, match=r"^length is 30, but must be at least") as caught:
        made(task, 30)
    smallest = smallest_of(caught.value)
    assert all(max(one.length, one.length_w_model_temp) <= smallest for one in made(task, smallest))
    with pytest.raises(ParameterError, match=f"length is {smallest - 1}, but must be at least"):
        Dataset(task, smallest - 1, "da", "words")


@pytest.mark.parametrize("name", FAMILIES)
def test_the_table_names_the_tasks_of_each_family(name):
    family = FAMILIES[name]
    assert family.name == name
    listed = [task for task in TASKS if TASKS[task].family is family]
    assert listed == [*family.variants, *family.beside]
    assert all((task in RULER) == (name in RULER_FAMILIES) for task in family.variants)
    with pytest.raises(ParameterError, match="knob is 'nonsense'"):
        resolve(listed[0], nonsense=1)


RULER_FAMILIES = ("niah", "variable_tracking", "common_words", "frequent_words", "qa")


@pytest.mark.parametrize(
    ("task", "knobs", "said"),
    [
        ("vt", {"haystack": "needle"}, "haystack is 'needle', but must be one of noise, essay"),
        ("vt", {"num_chains": 0}, "num_chains is 0"),
        ("vt", {"few_shot": "yes"}, "few_shot is 'yes', but must be True or False"),
        ("vt", {"num_chains": 100, "num_hops": 99}, r"num_chains \* \(num_hops \+ 1\) is 10000"),
        ("vt", {"num_hop": 3}, "did you mean 'num_hops'"),
        ("vt", {"name_length": 2}, "name_length is 2, but must be .*at least 3 and at most 40"),
        ("vt", {"name_length": 41}, "name_length is 41, but must be .*at least 3 and at most 40"),
        ("cwe", {"num_cw": 0}, "num_cw is 0"),
        ("cwe", {"freq_ucw": -1}, "freq_ucw is -1"),
        ("cwe", {"freq_cw": 3}, r"freq_cw is 3, but must be more than freq_ucw \(3\)"),
        ("cwe", {"freq_ucw": 30}, r"freq_cw is 30, but must be more than freq_ucw \(30\)"),
        ("cwe", {"few_shot": 1}, "few_shot is 1, but must be True or False"),
        ("cwe", {"words": "list.txt"}, "words is 'list.txt', but must be one of wordfreq, text"),
        ("fwe", {"alpha": 0}, "alpha is 0, but must be a number above 0"),
        ("fwe", {"alpha": float("nan")}, "alpha is nan"),
        ("fwe", {"coded_wordlen": 1}, "coded_wordlen is 1"),
        ("fwe", {"vocab_size": 4}, "vocab_size is 4"),
        ("fwe", {"vocab_size": 2000, "coded_wordlen": 2}, "at most 84 with coded words of 2"),
        ("graphwalks", {"operation": "dfs"}, "operation is 'dfs', but must be one of bfs, parents"),
        ("graphwalks", {"depth": 0}, "depth is 0, but must be .*at least 1 and at most 10"),
        (
            "graphwalks",
            {"name_length": 5},
            "name_length is 5, but must be .*at least 6 and at most",
        ),
        ("graphwalks", {"reasoning": "yes"}, "reasoning is 'yes', but must be True or False"),
        ("qa_1", {"hops": 0}, "hops is 0"),
        ("qa_1", {"num_documents": 0}, "num_documents is 0"),
        ("qa_2", {"num_documents": 1}, "num_documents is 1"),
        ("qa_1", {"num_documents": 10**12}, "must be at most 24000, all that there are"),
        ("qa_1", {"context": "no"}, "context is 'no'"),
        ("qa_1", {"depth": 101}, "depth is 101"),
        ("qa_2", {"depth": 50}, "None where an answer needs 2 documents"),
        ("qa_1", {"source": 7}, "source is 7"),
        ("qa_1", {"source": "nowhere.json"}, "a file that exists, or a hub name"),
        ("qa_1", {"sauce": "x"}, "did you mean 'source'"),
        ("passkey", {"num_needle_k": 2}, "num_needle_k is 2, but must be 1 where needle is"),
        ("passkey", {"haystack": "needle"}, "haystack is 'needle', but must be 'noise' or 'essay'"),
        ("niah_vanilla", {"type_needle_v": "uuids"}, "type_needle_v is 'uuids', but must be 'num"),
        ("niah_vanilla", {"paraphrase": 1}, "paraphrase is 1, but must be 0 where needle is"),
        ("niah_single_2", {"needle": "magik"}, "needle is 'magik'.*did you mean 'magic'"),
        ("records", {"ask": "most"}, "ask is 'most'"),
        ("records", {"skew": 0.5}, "skew is 0.5"),
        ("records", {"num_labels": 9}, "num_labels is 9"),
        ("records", {"num_users": 1}, "num_users is 1"),
    ],
)
def test_knobs_that_cannot_work_are_named(task, knobs, said):
    with pytest.raises(ParameterError, match=said):
        Dataset(task, 2048, "da", "words", knobs=knobs)
