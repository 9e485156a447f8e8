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
from conftest import killed
from rulerlib import languages
from rulerlib.errors import (
    BusyError,
    DataError,
    ParameterError,
    RunMismatchError,
    one_of,
    whole_number,
)
from rulerlib.memory import suites
from rulerlib.memory.suites import (
    PROFILES,
    SUITES,
    Item,
    Recipe,
    card_of,
    contents,
    main,
    write,
)
from rulerlib.samples import read_object
from rulerlib.store.lock import alone
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

    def episode(self, index: int, probes: int = 1) -> Episode:
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


@pytest.fixture
def made(little, tmp_path) -> Path:
    return write(recipe(probes=2), tmp_path / "sets" / "boxes.jsonl")


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


# ------------------------------------------------------------- files


def test_a_line_says_all_of_an_episode(made):
    item = list(recipe(probes=2))[1]
    line = json.loads(made.read_text("utf-8").splitlines()[1])
    for fact, row in zip(item.episode.facts, line["facts"], strict=True):
        spans = {name: tuple(span) for name, span in row.pop("values").items()}
        assert Fact(**row, values=spans) == fact
    for probe, row in zip(item.episode.probes, line["probes"], strict=True):
        values = {**row, "golds": tuple(row["golds"]), "needs": tuple(row["needs"])}
        assert Probe(**values) == probe
    line = json.loads(made.read_text("utf-8").splitlines()[1])
    assert list(line) == ["id", "suite", "language", "knobs", "facts", "probes"]
    assert list(line["facts"][0]) == [
        "number", "text", "day", "session", "values", "rewarded", "pinned",
    ]  # fmt: skip
    assert list(line["probes"][0]) == ["text", "golds", "needs", "kind", "facts"]
    assert line["knobs"] == {"facts": 3, "order": None}


def test_the_card_says_what_the_set_is(made):
    card, data = read_object(card_of(made)), made.read_bytes()
    gold = card.pop("most_frequent_gold")
    assert gold["gold"].encode() in data
    assert gold["share"] == 0.1
    assert re.fullmatch(r"[0-9a-f]{16}", card.pop("wording"))
    assert card == {
        "suite": "little", "language": "da", "seed": 42, "size": 5, "probes": 2,
        "knobs": {"facts": 3, "order": None}, "profile": "default",
        "rulerlib": rulerlib.__version__, "kinds": {"even": 5, "odd": 5},
        "facts": {"min": 3, "median": 3, "max": 3}, "sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip
    assert sorted(os.listdir(made.parent)) == ["boxes.card.json", "boxes.jsonl"]


def test_a_larger_set_begins_with_the_smaller_one(made):
    larger = write(recipe(9, probes=2), made.with_name("more.jsonl"))
    assert larger.read_bytes().startswith(made.read_bytes())
    assert larger.read_bytes() != made.read_bytes()


def test_what_stands_there_is_kept(made):
    before = made.stat().st_mtime_ns, card_of(made).stat().st_mtime_ns
    assert write(recipe(probes=2), made) == made
    assert before == (made.stat().st_mtime_ns, card_of(made).stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"size": 6}, "size = 5, and now size = 6 is"),
        ({"seed": 7}, "seed = 42, and now seed = 7 is"),
        ({"language": "en"}, "language = 'da', and now language = 'en' is"),
        ({"probes": 1}, "probes = 2, and now probes = 1 is"),
        ({"changes": {"order": "date"}}, "knobs.order = None, and now knobs.order = 'date' is"),
        ({"profile": "hard"}, "knobs.facts = 3, and now knobs.facts = 9 is"),
        ({"suite": "episodic"}, "suite = 'little', and now suite = 'episodic' is"),
    ],
)
def test_another_set_is_not_replaced(made, others, said):
    before = made.read_bytes()
    other = Recipe(**{"suite": "little", "size": 5, "probes": 2, **others})
    with pytest.raises(RunMismatchError) as refused:
        write(other, made)
    rest = " asked for: remove it or choose another name."
    assert str(refused.value) == f"{made} was made with {said}{rest}"
    assert made.read_bytes() == before


def test_a_set_of_other_wording_or_without_a_card_is_not_replaced(made):
    edited(card_of(made), '"wording": "', '"wording": "0')
    with pytest.raises(RunMismatchError, match=r"was made with wording = '0\w+', and now wording"):
        write(recipe(probes=2), made)
    card_of(made).unlink()
    with pytest.raises(RunMismatchError, match=r"without its card boxes\.card\.json"):
        write(recipe(probes=2), made)


def test_a_card_without_its_set_is_in_nobodys_way(made):
    made.unlink()
    write(recipe(2), made)
    assert read_object(card_of(made))["size"] == 2


def test_a_damaged_set_is_told_and_left(made):
    whole = made.read_bytes()
    for damaged in (whole[:-1], b"", whole * 2, whole.replace(b"ligger", b"Ligger", 1)):
        made.write_bytes(damaged)
        with pytest.raises(DataError, match=r"boxes\.jsonl: damaged \(its bytes are not those"):
            write(recipe(probes=2), made)
        assert made.read_bytes() == damaged


def test_a_set_is_never_half_there(little, tmp_path):
    """A process is killed while it writes; the next one makes the set and clears up."""
    path = tmp_path / "boxes.jsonl"
    code = (
        "import time\n"
        "from rulerlib.memory import suites\n"
        "row = suites.SUITES['episodic']\n"
        "def make(*settings):\n"
        "    made = row.make(*settings)\n"
        "    whole = made.episode\n"
        "    def slow(index, probes=1):\n"
        "        if index == 40:\n"
        "            print('begun', flush=True)\n"
        "            time.sleep(60)\n"
        "        return whole(index, probes)\n"
        "    made.episode = slow\n"
        "    return made\n"
        "suites.SUITES['episodic'] = row._replace(make=make)\n"
        f"suites.write(suites.Recipe('episodic', 50), {str(path)!r})\n"
    )
    killed(code, after=0.05)
    assert not path.exists()
    assert not card_of(path).exists()
    assert any(name.endswith(".unfinished") for name in os.listdir(tmp_path))
    write(recipe(), path)
    assert sorted(os.listdir(tmp_path)) == ["boxes.card.json", "boxes.jsonl"]
    assert read_object(card_of(path))["size"] == 5


@pytest.mark.parametrize("at", [0, 3])
def test_an_error_while_writing_leaves_nothing(little, tmp_path, monkeypatch, at):
    def episode(self, index, probes=1):
        if index == at:
            raise DataError("no words left")
        return Little.episode(self, index, probes)

    broken = type("Broken", (Little,), {"episode": episode})
    monkeypatch.setitem(SUITES, "little", suites.Suite(LittleKnobs(), broken, "episodic"))
    with pytest.raises(DataError, match="no words left"):
        write(recipe(), tmp_path / "boxes.jsonl")
    assert os.listdir(tmp_path) == []


def test_a_writer_that_ends_before_the_set_is_in_its_place_is_followed(made, monkeypatch):
    """The card was written and the set was not: the card of an earlier try is in nobody's way."""
    data = made.read_bytes(), card_of(made).read_bytes()
    made.unlink()
    edited(card_of(made), '"seed": 42', '"seed": 1')
    write(recipe(probes=2), made)
    assert (made.read_bytes(), card_of(made).read_bytes()) == data


def test_one_process_at_a_time(little, tmp_path):
    path = tmp_path / "boxes.jsonl"
    with alone(path), pytest.raises(BusyError, match="is being written by this very process"):
        write(recipe(), path)
    assert os.listdir(tmp_path) == []


def test_a_set_larger_than_the_disk_is_not_begun(little, tmp_path):
    with pytest.raises(ParameterError, match=r"^size is 1000000000000000, but must be smaller: it"):
        write(recipe(10**15), tmp_path / "boxes.jsonl")
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------- the command


def command(path: Path | str, *others: str, suite: str = "little", size: str = "3") -> list[str]:
    return ["--suite", suite, "--size", size, "--out", str(path), *others]


def test_the_command_writes_the_same_as_the_library(little, tmp_path, capsys):
    path = tmp_path / "new" / "folder" / "boxes.jsonl"
    asked = ("--seed", "7", "--language", "en", "--probes", "2", "--knob", "order=date")
    assert main(command(path, *asked, "--knob", "facts=4")) == 0
    out, err = capsys.readouterr()
    assert out == f"{path}: 3 episodes of little, described in boxes.card.json\n"
    assert err == ""
    same = Recipe("little", 3, 7, "en", probes=2, changes={"order": "date", "facts": 4})
    other = write(same, tmp_path / "same.jsonl")
    assert other.read_bytes() == path.read_bytes()
    assert card_of(other).read_bytes() == card_of(path).read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"suite": "litle"}, r"suite is 'litle', but .* \(did you mean 'little'\?\)\."),
        ({"size": "many"}, "size is 'many', but must be a whole number, at least 1."),
        ({"size": "0"}, "size is 0, but must be a whole number, at least 1."),
        ({"size": "2.5"}, "size is 2.5, but"),
        ({"size": "9" * 30}, "size is 9+, but must be a whole number, at least 1 and at most"),
        ({"size": "9" * 9999}, "size is '9+"),
        ({"--seed": "-1"}, "seed is -1, but must be a whole number, at least 0."),
        ({"--seed": "x"}, "seed is 'x', but"),
        ({"--probes": "true"}, "probes is True, but"),
        ({"--probes": "4"}, r"probes is 4, but must be at most 3, the questions that an episode"),
        ({"--language": "dk"}, r"language is 'dk', but must be one of da, en .*'da'"),
        ({"--profile": "easier"}, r"profile is 'easier', .* \(did you mean 'easy'\?\)\."),
        ({"--knob": "fact=3"}, r"knob is 'fact', but must be one of facts, order \(did you mean"),
        ({"--knob": "facts"}, "knob is 'facts', but must be a name and a value, such as facts=50."),
        ({"--knob": "facts=many"}, "facts is 'many', but"),
        ({"--knob": "facts=" + "[" * 99999}, r"facts is '\[+"),
        ({"--knob": "order=data"}, r"order is 'data', but .* \(did you mean 'date'\?\)\."),
    ],
)
def test_bad_input_is_one_sentence(little, tmp_path, capsys, words, said):
    named = {name: words[name] for name in words if not name.startswith("--")}
    flags = [word for name, value in words.items() if name.startswith("--")
             for word in (f"{name}={value}",)]  # fmt: skip
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
    assert re.fullmatch(r"out is '.*', but must be a file whose name ends in \.jsonl.*\.\n", err)


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
