"""The system ``smpd``: a map of places from the steps that were told, and ways planned on it.

What it is taught becomes places and the steps between them; where the episode says that ways can be
walked back, each step leads both ways. Ways are planned by `rulerlib.memory.ways`. After each
teaching ways are rehearsed, and those between what was often joined are kept ready.

>>> import pathlib, tempfile
>>> from rulerlib import languages
>>> from rulerlib.tasks.episodes import Fact
>>> path = pathlib.Path(tempfile.mkdtemp()) / "map.sqlite"
>>> system = PlaceMap.create(path, Settings(), languages.load("en"), "spatial")
>>> told = ["Corwin went north from the mill to the well.", "One step east of the well is the inn."]
>>> system.teach("walks-0", [Fact(number, text, 0) for number, text in enumerate(told)])
>>> question = "How many steps is the shortest way from the mill to the inn in Slurbebridge?"
>>> [each.text for each in system.recall("walks-0", question)][:2]
['The shortest way from the mill to the inn is NE, 2 steps.', \
'Corwin went north from the mill to the well.']
>>> system.close()
"""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rulerlib.errors import flag, whole_number
from rulerlib.languages import Language
from rulerlib.memory import replay
from rulerlib.memory.prompting import wording
from rulerlib.memory.reading import Reader
from rulerlib.memory.search import Words
from rulerlib.memory.store import Store
from rulerlib.memory.system import Recalled, Surprise, System
from rulerlib.memory.ways import Map, Way, folded, located, opposite
from rulerlib.tasks.episodes import Fact, told
from rulerlib.tasks.spatial import DIRECTIONS

# A rehearsed way is given up after 2,000 places, and only parts of it of at most 12 steps are
# counted: a large map must not be searched as a whole a hundred times.
_PATIENCE, _LONGEST = 2_000, 12

# How many episodes' maps are held in memory.
_HELD = 16

_TABLES = """
CREATE TABLE openings (
    fact INTEGER PRIMARY KEY REFERENCES facts (id), episode TEXT NOT NULL, town TEXT NOT NULL
);
CREATE INDEX openings_of ON openings (episode);
CREATE TABLE places (
    id INTEGER PRIMARY KEY, episode TEXT NOT NULL, name TEXT NOT NULL,
    east INTEGER, north INTEGER, UNIQUE (episode, name)
);
CREATE TABLE steps (
    here INTEGER NOT NULL REFERENCES places (id), direction TEXT NOT NULL,
    there INTEGER NOT NULL REFERENCES places (id), support INTEGER NOT NULL,
    fact INTEGER NOT NULL REFERENCES facts (id), PRIMARY KEY (here, direction, there)
) WITHOUT ROWID;
CREATE INDEX steps_there ON steps (there);
CREATE TABLE macros (
    here INTEGER NOT NULL REFERENCES places (id), there INTEGER NOT NULL REFERENCES places (id),
    route TEXT NOT NULL, times INTEGER NOT NULL, PRIMARY KEY (here, there)
) WITHOUT ROWID;
CREATE TABLE unread (fact INTEGER PRIMARY KEY REFERENCES facts (id));
"""


@dataclass(frozen=True)
class Settings:
    """What can be set about a map.

    Attributes
    ----------
    astar
        Whether coordinates guide the search for a way; False: breadth first.
    macros
        Whether a way that is kept ready is taken without a search.
    k
        How many texts are recalled at most, the plan among them.
    rehearsals
        How many ways are rehearsed after each teaching; 0: none, and no way is kept ready.
    mix
        From which steps they begin and where they lead to, by share: see `rulerlib.memory.replay`.
    frequent
        How often two places must have been joined by rehearsed ways for the way between them to be
        kept ready.
    seed
        Decides what is drawn for rehearsals.

    Raises
    ------
    ParameterError
        If a value cannot work: says what is allowed.
    """

    astar: bool = True
    macros: bool = True
    k: int = 10
    rehearsals: int = 40
    mix: Mapping[str, float] = field(default_factory=lambda: dict(replay.MIX))
    frequent: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("astar", "macros"):
            flag(name, getattr(self, name))
        for name, least in (("k", 1), ("rehearsals", 0), ("frequent", 1), ("seed", 0)):
            whole_number(name, getattr(self, name), least)
        object.__setattr__(self, "mix", replay.mixed(self.mix))


class PlaceMap(System):
    """A map of places for each episode, on which ways are planned.

    What it recalls for a question about a way is first a text with the plan, then what told of the
    steps that it goes over, and that they can be walked back. For another question it is what tells
    of the places that it names, and, of what was taught beside steps, what shares words with it.

    Parameters
    ----------
    store, settings, language
        See `System`; the settings are `Settings`.

    Raises
    ------
    DataError
        If the language has no wording for walks and plans.
    """

    name = "smpd"
    tables = Words.tables + _TABLES
    settings: Settings

    def __init__(self, store: Store, settings: Settings, language: Language) -> None:
        super().__init__(store, settings, language)
        self.counts |= dict.fromkeys(("plans", "expanded", "macro_hits", "rehearsals"), 0)
        self._plan = wording(language)["plan"]
        self._spatial = language.section("spatial")
        self._reader, self._words = Reader(language), Words(store)
        self._letters, self._directions = dict[str, str](), dict[str, str]()
        for name in DIRECTIONS:
            word, self._letters[name] = self._spatial["directions"][name]
            self._directions[word] = name
        self._maps: collections.OrderedDict[str, Map] = collections.OrderedDict()
        self._version = -1

    @classmethod
    def about(cls, settings: Settings, language: Language) -> dict[str, Any]:
        """See `System`; what matters at recall alone is left out.

        Raises
        ------
        DataError
            If the language has no wording for walks and plans.
        """
        # Before a store is made that nothing could be taught to.
        wording(language), language.section("spatial")
        later = ("astar", "macros", "k")
        chosen = {
            name: value for name, value in dataclasses.asdict(settings).items() if name not in later
        }
        return {"language": language.code, **chosen}

    def teach(self, episode: str, facts: Iterable[Fact], surprise: Surprise | None = None) -> None:
        """See `System`. A step goes into the map whether it was expected or not."""
        with self.store.writing():
            self._keep(episode, facts)
            self._locate(episode)
            self._rehearse(episode)
        self._maps.pop(episode, None)

    def recall(self, episode: str, question: str) -> list[Recalled]:
        """See `System`."""
        self.counts["requests"] += 1
        known = self._map(episode)
        found = self._planned(known, question) or self._beside(episode, known, question)
        found = found[: self.settings.k]
        self.counts["hits"] += bool(found)
        return found

    def telemetry(self) -> dict[str, float]:
        """See `System`: also the places, those with coordinates, steps, macros and what is unread.

        ``plans`` are the ways that were found, ``expanded`` the places that were looked at for
        them, ``macro_hits`` the ways that were ready, ``rehearsals`` the ways that were rehearsed.
        """
        held = {"located": "places WHERE east IS NOT NULL"}
        held |= {table: table for table in ("places", "steps", "macros", "unread")}
        count = self.store.database.execute
        return {
            **super().telemetry(),
            **{name: count(f"SELECT count(*) FROM {rows}").fetchone()[0]
               for name, rows in held.items()},
        }  # fmt: skip

    # ------------------------------------------------------------ teaching

    def _keep(self, episode: str, facts: Iterable[Fact]) -> None:
        """Keep facts, and draw into the map what they tell of it."""
        execute, many = self.store.database.execute, self.store.database.executemany
        query = "SELECT name, id FROM places WHERE episode = ?"
        places = {folded(name): place for name, place in execute(query, (episode,))}
        steps, unread = [], []
        for fact in facts:
            kept = self.store.add(episode, fact)
            read = self._reader.fact(fact.text)
            kind = read.kind if read is not None else ""
            if read is not None and kind == "step":
                ends = []
                for name in (read.values["from"], read.values["to"]):
                    if folded(name) not in places:
                        row = "INSERT INTO places (episode, name) VALUES (?, ?) RETURNING id"
                        places[folded(name)] = execute(row, (episode, name)).fetchone()[0]
                    ends.append(places[folded(name)])
                direction = self._directions[read.values["direction"]]
                steps.append((ends[0], direction, ends[1], kept))
            elif read is not None and kind == "opening":
                town = folded(read.values["town"])
                execute("INSERT INTO openings VALUES (?, ?, ?)", (kept, episode, town))
            else:
                unread.append((kept, fact.text))
        if unread:
            self._words.add(episode, unread)
            many("INSERT INTO unread VALUES (?)", [(kept,) for kept, _ in unread])
        many(
            "INSERT INTO steps VALUES (?, ?, ?, 1, ?) ON CONFLICT DO UPDATE"
            " SET support = support + 1, fact = excluded.fact",
            steps,
        )

    def _locate(self, episode: str) -> None:
        """Give coordinates to the places of an episode."""
        steps = [(here, direction, there) for here, direction, there, _ in self._steps(episode)]
        spots = located(steps)
        execute, many = self.store.database.execute, self.store.database.executemany
        execute("UPDATE places SET east = NULL, north = NULL WHERE episode = ?", (episode,))
        many(
            "UPDATE places SET east = ?, north = ? WHERE id = ?",
            [(*spot, place) for place, spot in spots.items()],
        )

    def _rehearse(self, episode: str) -> None:
        """Walk ways in mind, and keep those ready that lead between what is often joined."""
        execute, many = self.store.database.execute, self.store.database.executemany
        execute(
            "DELETE FROM macros WHERE here IN (SELECT id FROM places WHERE episode = ?)",
            (episode,),
        )
        rows = execute(
            "SELECT here, there, rewarded + pinned FROM places JOIN steps ON here = places.id"
            " JOIN facts ON facts.id = fact WHERE places.episode = ?"
            " ORDER BY fact, here, direction, there",
            (episode,),
        ).fetchall()
        known = self._drawn(episode)
        settings = self.settings
        starts, goals = (
            replay.draw(
                [marks for _, _, marks in rows],
                settings.rehearsals,
                settings.mix,
                f"{settings.seed} {episode} {end}",
            )
            for end in ("start", "goal")
        )
        times = collections.Counter[tuple[int, int]]()
        routes: dict[tuple[int, int], str] = {}
        for kind, drawn in starts.items():
            for first, last in zip(drawn, goals[kind], strict=True):
                start, goal = rows[first][0], rows[last][1]
                steps, _ = known.plan(start, goal, most=_PATIENCE)
                self.counts["rehearsals"] += 1
                # A part of a shortest way is a shortest way.
                places = [start, *(step.there for step in steps or ())]
                for low in range(len(places)):
                    for high in range(low + 1, min(low + _LONGEST, len(places) - 1) + 1):
                        ends = places[low], places[high]
                        times[ends] += 1
                        if ends not in routes:
                            walked = [step.direction for step in (steps or ())[low:high]]
                            routes[ends] = json.dumps(walked)
        many(
            "INSERT INTO macros VALUES (?, ?, ?, ?)",
            [(*ends, routes[ends], count)
             for ends, count in times.items() if count >= settings.frequent],
        )  # fmt: skip

    def _steps(self, episode: str) -> list[tuple[int, str, int, int]]:
        """Return from where, in which direction and to where steps lead, and what told of them.

        Of those that contradict each other the last one holds: it was told most often, and of two
        that were told as often it was told later.
        """
        return self.store.database.execute(
            "SELECT here, direction, there, fact FROM places JOIN steps ON here = places.id"
            " WHERE episode = ? ORDER BY support, fact",
            (episode,),
        ).fetchall()

    # ------------------------------------------------------------ recalling

    def _map(self, episode: str) -> Map:
        """Return the map of an episode, read once for questions in a row."""
        (version,) = self.store.database.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            # Another process has written.
            self._maps.clear()
            self._version = version
        if episode not in self._maps:
            self._maps[episode] = self._drawn(episode)
            if len(self._maps) > _HELD:
                self._maps.popitem(last=False)
        self._maps.move_to_end(episode)
        return self._maps[episode]

    def _drawn(self, episode: str) -> Map:
        """Return the map of an episode as it stands in the store."""
        execute = self.store.database.execute
        query = "SELECT town, fact FROM openings WHERE episode = ? ORDER BY fact DESC"
        openings = dict(execute(query, (episode,)))
        names, spots = dict[str, int](), dict[int, tuple[int, int]]()
        for place, name, east, north in execute(
            "SELECT id, name, east, north FROM places WHERE episode = ? ORDER BY id", (episode,)
        ):
            names[folded(name)] = place
            if east is not None:
                spots[place] = east, north
        ways: dict[int, dict[str, Way]] = {}
        for here, direction, there, fact in self._steps(episode):
            ways.setdefault(here, {})[direction] = Way(direction, there, fact)
            if openings:
                back = opposite(direction)
                ways.setdefault(there, {})[back] = Way(back, here, fact)
        macros = {
            (here, there): json.loads(route)
            for here, there, route in execute(
                "SELECT here, there, route FROM places JOIN macros ON here = id WHERE episode = ?",
                (episode,),
            )
        }
        return Map(names, ways, spots, macros, openings)

    def _planned(self, known: Map, question: str) -> list[Recalled]:
        """Return the plan for a question about a way, and what told of its steps; or nothing."""
        asked = self._reader.question(question)
        if asked is None or asked.kind not in ("length", "route", "stand"):
            return []
        start = known.names.get(folded(asked.values["start"]))
        opening = known.openings.get(folded(asked.values["town"]))
        if start is None or (known.openings and opening is None):
            return []
        words = {"a": asked.values["start"]}
        if asked.kind == "stand":
            steps = known.follow(start, map(self._directions.__getitem__, asked.moves))
            if len(steps) < len(asked.moves):
                return []
            words["moves"] = ", ".join(asked.moves)
            words["b"] = self._name(steps[-1].there)
            text, _ = told(self._plan["walk"], words)
        else:
            words["b"] = asked.values["goal"]
            goal = known.names.get(folded(words["b"]))
            found = None if goal is None else self._way(known, start, goal)
            if not found:
                return []
            steps = found
            number = {"number": str(len(steps))}
            number["unit"] = self._spatial["words"]["units"][len(steps) != 1]
            words["length"], _ = told(self._spatial["golds"]["length"], number)
            words["route"] = "".join(self._letters[step.direction] for step in steps)
            text, _ = told(self._plan["way"], words)
        self.counts["plans"] += 1
        ids = [*dict.fromkeys(step.fact for step in steps)]
        ids += [opening] if opening is not None else []
        facts = self.store.of(ids)
        plan = Recalled(text, tuple(fact.number for fact in facts), 2.0)
        return [plan, *(Recalled(fact.text, (fact.number,), 1 / place)
                        for place, fact in enumerate(facts, 1))]  # fmt: skip

    def _way(self, known: Map, start: int, goal: int) -> list[Way] | None:
        """Return a shortest way, ready or planned; None: there is none."""
        if self.settings.macros and (start, goal) in known.macros:
            self.counts["macro_hits"] += 1
            return known.follow(start, known.macros[start, goal])
        steps, looked_at = known.plan(start, goal, self.settings.astar)
        self.counts["expanded"] += looked_at
        return steps

    def _name(self, place: int) -> str:
        row = self.store.database.execute("SELECT name FROM places WHERE id = ?", (place,))
        return str(row.fetchone()[0])

    def _beside(self, episode: str, known: Map, question: str) -> list[Recalled]:
        """Return what tells of places that a question names, and what it shares words with."""
        score = collections.defaultdict[int, float](float)
        named = known.named(question)
        for place in named:
            for here, there, fact in self.store.database.execute(
                "SELECT here, there, fact FROM steps WHERE here = ?1 OR there = ?1", (place,)
            ):
                score[fact] = max(score[fact], (here in named) + (there in named))
        most = self.settings.k
        found = sorted(score.items(), key=lambda item: (-item[1], item[0]))[:most]
        # On the same scale: below all that is near a place.
        found += [
            (each, fits / (1 + fits))
            for each, fits in self._words.search(episode, question, most - len(found))
        ]
        facts = self.store.of([each for each, _ in found])
        return [
            Recalled(fact.text, (fact.number,), fits)
            for fact, (_, fits) in zip(facts, found, strict=True)
        ]
