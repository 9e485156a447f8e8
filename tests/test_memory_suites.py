"""Sets of episodes: the same bytes everywhere, whole or not there, and what holds for every suite.

What concerns files is held with a small suite of the tests' own, what concerns questions and golds
with every suite, in every language and profile.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import rulerlib
from rulerlib import languages
from rulerlib.errors import DataError, one_of, whole_number
from rulerlib.memory import suites
from rulerlib.memory.suites import PROFILES, SUITES, Item, Recipe, contents, main
from rulerlib.samples import read_object
from rulerlib.tasks.episodes import Episode, Episodes, Fact, Probe

CODES = sorted(languages.available())
EVERY = [(suite, code, profile) for suite in SUITES for code in CODES for profile in PROFILES]

# Facts that are made for a property of one suite, language and profile.
FACTS = 6_000


def recipe_of(suite: str, code: str, profile: str, size: int, **others) -> Recipe:
    return Recipe(suite, size, language=code, profile=profile, **others)


# ------------------------------------------------------------- a small suite


@dataclasses.dataclass(frozen=True)
class LittleKnobs:
    facts: int = 3
    order: str | None = None

    def __post_init__(self) -> None:
        whole_number("facts", self.facts, 1, 1000)
        if self.order is not None:
            one_of("order", self.order, ("date", "name"))


class Little(Episodes):
    """Boxes with numbers in them: quickly made, and nothing to be learnt from."""

    @property
    def most_probes(self) -> int:
        return self.knobs.facts

    def _episode(self, index: int, probes: int) -> Episode:
        rng = Random(f"{self.seed} {self.language.code} {index}")
        facts, numbers = [], [rng.randrange(10**9) for _ in range(self.knobs.facts)]
        for place, number in enumerate(numbers):
            text = f"I æske {index}.{place} ligger {number}."
            start = text.index(str(number))
            span = {"number": (start, start + len(str(number)))}
            facts.append(Fact(place, text, place, span, place // 2, place == 1, place == 2))
        asked = [
            Probe(f"Hvad ligger i æske {index}.{place}?", (str(number), f"nr. {number}"), (place,),
                  "even" if place % 2 == 0 else "odd", {"place": place})
            for place, number in enumerate(numbers[:probes])
        ]  # fmt: skip
        return Episode(f"little-{index}", tuple(facts), tuple(asked))


@pytest.fixture
def little(monkeypatch):
    """The table of suites with the small one in it."""
    row = suites.Suite(LittleKnobs(), Little, "episodic")
    monkeypatch.setitem(SUITES, "little", row)
    monkeypatch.setitem(PROFILES, "hard", {**PROFILES["hard"], "little": {"facts": 9}})


def recipe(size: int = 5, **others) -> Recipe:
    return Recipe("little", size, **others)


# ------------------------------------------------------------- the command


def command(path: Path | str, *others: str, suite: str = "little", size: str = "3") -> list[str]:
    return ["--suite", suite, "--size", size, "--out", str(path), *others]


def test_a_set_and_its_card_say_all_of_its_episodes(little, tmp_path, capsys):
    path = tmp_path / "new" / "boxes.jsonl"
    asked = ("--seed", "7", "--language", "en", "--probes", "2", "--knob", "facts=4")
    assert main(command(path, *asked)) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (f"{path}: 3 episodes of little, described in boxes.card.json\n", "")
    assert sorted(os.listdir(path.parent)) == ["boxes.card.json", "boxes.jsonl"]
    same, lines = Recipe("little", 3, 7, "en", probes=2, changes={"facts": 4}), path.read_bytes()
    for item, text in zip(same, lines.decode().splitlines(), strict=True):
        line = json.loads(text)
        assert list(line) == ["id", "suite", "language", "knobs", "facts", "probes"]
        assert line["knobs"] == {"facts": 4, "order": None}
        for fact, row in zip(item.episode.facts, line["facts"], strict=True):
            spans = {name: tuple(span) for name, span in row.pop("values").items()}
            assert Fact(**row, values=spans) == fact
        for probe, row in zip(item.episode.probes, line["probes"], strict=True):
            values = {**row, "golds": tuple(row["golds"]), "needs": tuple(row["needs"])}
            assert Probe(**values) == probe
    card = read_object(path.with_name("boxes.card.json"))
    gold = card.pop("most_frequent_gold")
    assert gold["gold"].encode() in lines
    assert gold["share"] == 0.1667
    assert re.fullmatch(r"[0-9a-f]{16}", card.pop("wording"))
    assert card == {
        "suite": "little", "language": "en", "seed": 7, "size": 3, "probes": 2,
        "knobs": {"facts": 4, "order": None}, "profile": "default",
        "rulerlib": rulerlib.__version__, "kinds": {"even": 3, "odd": 3},
        "facts": {"min": 4, "median": 4, "max": 4}, "sha256": hashlib.sha256(lines).hexdigest(),
    }  # fmt: skip
    # A larger set begins with the smaller one, and what stands there is left.
    more = path.with_name("more.jsonl")
    assert main(command(more, *asked, size="9")) == 0
    assert more.read_bytes().startswith(lines)
    assert main(command(path, *asked, size="9")) == 2
    assert "must be a new file whose name ends in .jsonl" in capsys.readouterr().err
    assert path.read_bytes() == lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"suite": "litle"}, r"suite is 'litle', but .* \(did you mean 'little'\?\)\."),
        ({"size": "many"}, "size is 'many', but must be a whole number, at least 1."),
        ({"size": "2.5"}, "size is 2.5, but"),
        ({"size": "9" * 30}, "size is 9+, but must be a whole number, at least 1 and at most"),
        ({"size": "9" * 9999}, "size is '9+"),
        ({"size": "9" * 15}, "size is 9+, but must be smaller: it needs about"),
        ({"--seed": "-1"}, "seed is -1, but must be a whole number, at least 0."),
        ({"--probes": "true"}, "probes is True, but"),
        ({"--probes": "4"}, r"probes is 4, but must be at most 3, the questions that an episode"),
        ({"--language": "dk"}, r"language is 'dk', but must be one of da, en .*'da'"),
        ({"--profile": "easier"}, r"profile is 'easier', .* \(did you mean 'easy'\?\)\."),
        ({"--knob": "fact=3"}, r"knob is 'fact', but must be one of facts, order \(did you mean"),
        ({"--knob": "facts"}, "knob is 'facts', but must be a name and a value, such as facts=50."),
        ({"--knob": "facts=" + "[" * 99999}, r"facts is '\[+"),
        ({"--knob": "order=data"}, r"order is 'data', but .* \(did you mean 'date'\?\)\."),
    ],
)
def test_bad_input_is_one_sentence(little, tmp_path, capsys, words, said):
    named = {name: words[name] for name in words if not name.startswith("--")}
    flags = [f"{name}={value}" for name, value in words.items() if name.startswith("--")]
    assert main(command(tmp_path / "boxes.jsonl", *flags, **named)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.match(said, err)
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["folder.jsonl", "boxes.txt", "boxes", ".jsonl", "a\0.jsonl", " "])
def test_a_name_that_no_set_can_have(little, tmp_path, capsys, name):
    (tmp_path / "folder.jsonl").mkdir()
    assert main(command(f"{tmp_path}/{name}" if name.strip() else name)) == 2
    err = capsys.readouterr().err
    assert re.fullmatch(r"out is '.*', but must be a new file whose name ends in .*\.\n", err)


def test_an_error_while_writing_leaves_nothing(little, tmp_path, monkeypatch, capsys):
    def episode(self, index, probes=1):
        if index == 3:
            raise DataError("no words left")
        return Little.episode(self, index, probes)

    broken = type("Broken", (Little,), {"episode": episode})
    monkeypatch.setitem(SUITES, "little", suites.Suite(LittleKnobs(), broken, "episodic"))
    assert main(command(tmp_path / "boxes.jsonl", size="5")) == 2
    assert capsys.readouterr().err == "no words left\n"
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------- every suite


def items(suite: str, code: str, profile: str, asked: int) -> list[Item]:
    """Return the items of a set with ``asked`` questions, more of an episode where it is long."""
    one = recipe_of(suite, code, profile, 1)
    facts = len(next(iter(one)).episode.facts)
    probes = min(-(-asked * facts // FACTS), one.episodes.most_probes)
    return list(recipe_of(suite, code, profile, -(-asked // probes), probes=probes))


def told_once(episode: Episode, conversation: bool) -> bool:
    """Whether no fact says what another one says.

    A turn of a conversation such as "Sorry, I mean 54." speaks of the turn before it.
    """
    texts = [fact.text for fact in episode.facts]
    told = list(itertools.pairwise(["", *texts])) if conversation else texts
    return len(set(told)) == len(told)


@pytest.mark.parametrize(("suite", "code", "profile"), EVERY)
def test_what_holds_for_every_suite(suite, code, profile):
    made = items(suite, code, profile, 300)
    golds: dict[str, set[tuple[str, ...]]] = {}
    right, asked = Counter[str](), 0
    for item in made:
        episode = item.episode
        assert told_once(episode, item.knobs.get("conversation", False))
        for probe in episode.probes:
            golds.setdefault(probe.text, set()).add(probe.golds)
            right.update({gold.casefold() for gold in probe.golds})
            asked += 1
            assert len(set(probe.golds)) == len(probe.golds)
            assert len(set(probe.needs)) == len(probe.needs)
            assert all(0 <= needed < len(episode.facts) for needed in probe.needs)
            assert probe.text
            assert probe.kind
    assert all(len(each) == 1 for each in golds.values())
    assert asked >= 300
    assert right.most_common(1)[0][1] <= asked / 10, right.most_common(3)
    assert len({item.episode.id for item in made}) == len(made)


@pytest.mark.parametrize("suite", SUITES)
def test_facts_do_not_depend_on_the_questions(suite):
    for code in CODES:
        one = recipe_of(suite, code, "easy", 3)
        more = recipe_of(suite, code, "easy", 3, probes=one.episodes.most_probes)
        for few, many in zip(one, more, strict=True):
            assert few.episode.facts == many.episode.facts
            assert few.episode.probes == many.episode.probes[:1]


@pytest.mark.parametrize("profile", ["easy", "hard"])
def test_every_profile_changes_every_suite(profile):
    assert PROFILES[profile].keys() == SUITES.keys()
    for suite, row in SUITES.items():
        assert Recipe(suite, 1, profile=profile).knobs != row.knobs


def test_the_room_names_every_suite():
    named = re.findall(r"^`(\w+)` ", rulerlib.memory.__doc__, re.MULTILINE)
    assert named == list(SUITES)


def test_contents_of_several_lengths_of_episodes(little):
    found = contents(item for facts in (1, 2, 7, 8)
                     for item in recipe(1, changes={"facts": facts}))  # fmt: skip
    assert found["facts"] == {"min": 1, "median": 4.5, "max": 8}
    assert found["size"] == 4
