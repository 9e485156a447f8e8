"""Episodes taught in the context: in order, to the token, and answered by what the prompt says.

The golds are derived again from the finished prompts, by the readers of the suites' own tests.
"""

from __future__ import annotations

import dataclasses
import itertools
import re

import pytest
from helpers_tasks import check_lengths
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import dataset, languages, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks import TASKS, resolve, taught
from rulerlib.tasks.episodes import Episode, Probe
from rulerlib.tasks.family import MEMORY

NAMES = [name for name, task in TASKS.items() if task.category == MEMORY]
CODES = ("da", "en")
LENGTH = 2600

each_task = pytest.mark.parametrize("task", NAMES)
both = pytest.mark.parametrize("code", CODES)

ASKED = {
    "da": re.compile(r"\n\nSpørgsmål: (.+) Skriv kun svaret, så kort som muligt\."),
    "en": re.compile(r"\n\nQuestion: (.+) Write only the answer, as briefly as possible\."),
}


@pytest.fixture(autouse=True)
def few_trials(monkeypatch):
    """Of episodes like these it is enough to draw a few beforehand."""
    monkeypatch.setattr(dataset, "PROBES", 8)


def made(task: str, code: str = "da", length: int = LENGTH, count: int = 12, **more) -> Dataset:
    return Dataset(task, length, code, "words", num_samples=count, **more)


def question(sample: Sample) -> str:
    """What is asked, as it stands in the prompt."""
    (part,) = sample.parts.of_role("question")
    return ASKED[sample.language].fullmatch(sample.input[part.start : part.end])[1]


def episode(sample: Sample) -> Episode:
    """The episode of a prompt, as far as the prompt has it."""
    kind, needs = sample.facts["kind"], taught.needed(sample)
    probe = Probe(question(sample), tuple(sample.outputs), needs, kind, sample.facts)
    return Episode(sample.cluster, taught.facts_of(sample), (probe,))


@settings(max_examples=10)
@given(data=st.data(), task=st.sampled_from(NAMES), code=st.sampled_from(CODES))
def test_any_setting_keeps_the_order_and_the_budget(data, task, code):
    knobs = {"haystack": data.draw(st.sampled_from(taught.HAYSTACKS))}
    if task not in ("spatial", "episodic_multi"):
        knobs |= {"facts": data.draw(st.integers(20, 40))}
    queries = data.draw(st.integers(1, resolve(task, **knobs).knobs.most_probes))
    seed, index = data.draw(st.integers(0, 99)), data.draw(st.integers(0, 30))
    length, first = data.draw(st.integers(LENGTH, 2 * LENGTH)), index - index % queries
    drawn = Dataset(
        task, length, code, "words", first + queries, seed, knobs=knobs,
        queries_per_context=queries,
    )  # fmt: skip
    whole = drawn.maker.episodes.episode(index // queries, queries)
    sample, probe = drawn[index], whole.probes[index % queries]
    # The facts, in their order, with all that they say.
    assert [fact.text for fact in taught.facts_of(sample)] == [fact.text for fact in whole.facts]
    assert [fact.values for fact in taught.facts_of(sample)] == [
        dict(sorted(fact.values.items(), key=lambda item: item[1])) for fact in whole.facts
    ]
    assert question(sample) == probe.text
    assert {*taught.needed(sample)} == {*probe.needs}
    # To the token, and within one unit of it, for the longest question of the context.
    longest = max(check_lengths(drawn, drawn[number]) for number in range(first, first + queries))
    assert length - drawn.maker.haystack.longest <= longest <= length


def test_depths_rise_and_are_spread_over_the_context():
    depths = []
    for sample in made("episodic", count=20):
        own = [part.depth for part in sample.parts.of_role("needle", "distractor")]
        assert own == sorted(own)
        depths += own
    shares = [sum(low <= depth < low + 25 for depth in depths) / len(depths) for low in (0, 25, 50)]
    assert all(share == pytest.approx(0.25, abs=0.07) for share in shares)


@both
def test_what_speaks_of_the_turn_before_it_directly_follows_it(code):
    """In prose as in noise nothing stands between "My code is 12" and "No, it is 13"."""
    followers = 0
    data = made("episodic_multi", code, count=6)
    for sample in data:
        whole = data.maker.episodes.episode(sample.index)
        parts = sample.parts.of_role("needle", "distractor")
        for (before, part), fact in zip(itertools.pairwise(parts), whole.facts[1:], strict=True):
            if fact.follows:
                followers += 1
                assert sample.input[before.end : part.start] == " "
                # The same one speaks.
                assert fact.value("speaker") == whole.facts[fact.number - 1].value("speaker")
    assert followers > 10
    assert not any(fact.follows for fact in made("episodic").maker.episodes.episode(0).facts)


def test_questions_about_one_episode_share_its_context():
    data = made("spatial", queries_per_context=4)
    first, *others = (data[index] for index in range(4))
    for other in others:
        assert taught.facts_of(other) == taught.facts_of(first)
        assert other.cluster == first.cluster != data[4].cluster
        assert other.context_id == first.context_id
    assert len({question(data[index]) for index in range(4)}) == 4
    assert [data[index].id for index in range(5)] == [
        *(f"spatial-0/{number}" for number in range(4)), "spatial-1/0",
    ]  # fmt: skip


def test_two_tasks_have_no_cluster_in_common():
    first, second = made("episodic")[0], made("episodic_cross")[0]
    assert first.id == second.id
    assert first.cluster != second.cluster


@each_task
def test_what_is_asked_comes_first(task):
    for sample in made(task):
        assert len(sample.depths) == len(taught.needed(sample)) == sample.facts["needed"]
        assert sample.facts["taught"] == len(taught.facts_of(sample))
        holds = [part for part in sample.parts.of_role("needle") if part.value is not None]
        assert len(holds) <= 1
        if holds:
            assert holds[0].value == sample.outputs[0]
            assert sample.depths[0] == holds[0].depth
            start, _ = tokens.Words().spans([sample.input])[0][sample.token_position_answer]
            assert sample.input[start:].lstrip().startswith(sample.outputs[0])
            assert holds[0].start - 1 <= start < holds[0].end
        assert holds or task in ("episodic_cross", "spatial")
        assert sample.golds == [[gold] for gold in sample.outputs]


@both
def test_what_was_never_told_needs_nothing(code):
    unknown = {"da": "ukendt", "en": "unknown"}[code]
    data = made("episodic_cross", code, count=30, knobs={"unanswerable": 0.3})
    found = [sample for sample in data if not sample.facts["answerable"]]
    assert len(found) == pytest.approx(9, abs=3)
    for sample in found:
        assert sample.outputs[0] == unknown
        assert unknown in question(sample)
        assert sample.depths == sample.token_positions == []
        assert sample.token_position_answer is None
        assert not sample.parts.of_role("needle")


@each_task
def test_the_gold_scores_one_and_another_value_nothing(task):
    scoring, data = TASKS[task].scoring, made(task, count=5)
    for sample in data:
        for gold in sample.outputs:
            values = scoring.score(f" {gold}", sample.outputs, sample.golds, "da")
            assert values["em_norm"] == values["f1_words"] == values["part_match"] == 1
        assert scoring.score("noget andet", sample.outputs, sample.golds, "da")["em_norm"] == 0
        assert max(map(data.tokenizer.count, sample.outputs)) < data.tokens_to_generate


def mistake(sample: Sample, said: str, cut_off: bool = False) -> dict:
    others = {"language": sample.language, "parts": sample.to_dict()["parts"],
              "facts": sample.facts}  # fmt: skip
    prediction = Prediction(sample.index, sample.input, sample.outputs, said, others)
    return TASKS[sample.task].family.explain(prediction, cut_off)


def first(task: str, kind: str, code: str = "da", **knobs) -> Sample:
    """The first sample that asks for something of a kind."""
    return next(
        sample for sample in made(task, code, count=40, knobs=knobs) if sample.facts["kind"] == kind
    )


@both
def test_the_value_of_another_fact(code):
    sample = first("episodic", "who", code)
    facts, (need,) = taught.facts_of(sample), taught.needed(sample)
    other = next(f for f in facts if f.value("who") != sample.outputs[0])
    assert mistake(sample, f" {other.value('who')}.\nAnd more") == "distractor"
    # What the needed fact says beside the answer.
    assert mistake(sample, facts[need].value("what")) == "halfway"
    assert mistake(sample, f"{sample.outputs[0]} var der") == "more words"


@both
def test_values_that_did_not_hold_in_the_end(code):
    seen = set()
    for sample in made("episodic_multi", code, count=15):
        facts = [taught.facts_of(sample)[need] for need in taught.needed(sample)]
        said = {fact.value(name) for fact in facts for name in fact.values if name != "speaker"}
        for value in said - {*sample.outputs}:
            assert mistake(sample, value) == "overruled"
            seen.add(sample.facts["kind"])
        assert mistake(sample, facts[0].value("speaker")) == "halfway"
    assert seen >= {"corrected", "retracted"}


@both
def test_the_end_of_a_chain_that_another_note_overrules(code):
    for sample in made("semantic", code, count=4, knobs={"contradictions": "date"}):
        assert mistake(sample, sample.facts["wrong"]) == "overruled"
        assert mistake(sample, sample.facts["start"]) == "halfway"


@both
def test_other_mistakes(code):
    sample = first("spatial", "length", code)
    wrong = {"da": "9 skridt", "en": "9 steps"}[code]
    assert mistake(sample, wrong) == "wrong value"
    assert mistake(sample, "") == "empty"
    assert mistake(sample, "", cut_off=True) == "cut off"
    assert mistake(sample, "...") == "other"
    assert mistake(sample, {"da": "Ukendt.", "en": "Unknown."}[code]) == "refused"
    assert mistake(sample, "Zanzibar\n") == "no context"
    assert mistake(sample, "Zanzibar", cut_off=True) == "cut off"
    # A word of the essays is no value.
    (context,) = sample.parts.of_role("context")
    words = sample.input[context.start : context.end].split()
    essays = " ".join(languages.load(code).essays).split()
    said = next(word for word in words if len(word) > 9 and word.isalpha() and word in essays)
    assert mistake(sample, said) == "other"
    assert mistake(sample, sample.facts["town"]) == "halfway"


def test_a_dataset_cites_its_wording():
    assert made("semantic").metadata["source"] != made("semantic", "en").metadata["source"]
    assert made("semantic").metadata["source"] != made("spatial").metadata["source"]
    assert made("episodic").metadata["source"] == made("episodic_multi").metadata["source"]
    # What stands before the facts and after them belongs to it.
    pack = languages.load("en")
    table = {**pack.templates["memory"]["context"], "template": "Read this: {context} {query}"}
    memory = {**pack.templates["memory"], "context": table}
    other = dataclasses.replace(pack, templates={**pack.templates, "memory": memory})
    assert made("spatial", other).metadata["source"] != made("spatial", pack).metadata["source"]


def test_there_are_no_more_episodes_than_towns():
    data = made("spatial", count=10**6, queries_per_context=2)
    limit = data.maker.episodes.limit
    assert data[2 * limit - 1].id == f"spatial-{limit - 1}/1"
    with pytest.raises(ParameterError) as caught:
        _ = data[2 * limit]
    assert str(caught.value) == (
        f"num_samples is {2 * limit + 1}, but must be at most {2 * limit}, for there are no more"
        " episodes."
    )
