"""What a language pack can ask, what it lacks, and how far its words and its prose reach."""

from __future__ import annotations

import warnings

from rulerlib import languages, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import RulerError
from rulerlib.haystack import prose
from rulerlib.labels import said_count
from rulerlib.languages import Language
from rulerlib.languages.prose import CHARACTERS
from rulerlib.tasks import TASKS
from rulerlib.tasks.niah import POOL_FACTOR

LENGTHS = tuple(2**power for power in range(13, 21))

# At this length every task fits that a pack has words for.
TRIED = 16_384


def report(name: str, tokenizer: str = "lille") -> str:
    """Return in lines which tasks a pack can ask, which files it lacks, and what it has and wants.

    The pack's files are named as they are called in its folder.

    Parameters
    ----------
    name
        A language's code, or the folder of a pack.
    tokenizer
        Counts the tokens of its texts: a model's name or folder, or ``"words"``.

    Raises
    ------
    ParameterError, DataError
        If there is no such pack or tokenizer, or the pack is damaged.
    """
    pack, counter = languages.load(name), tokens.load(tokenizer)
    essays = prose(pack.essays, counter)
    works, lacks = _tasks(pack, counter)
    lines = [
        f"{pack.name} ({pack.code}): {len(pack.adjectives)} adjectives, {len(pack.nouns)} nouns,"
        f" {said_count(len(pack.essays), 'essay')} of {said_count(len(essays.units), 'sentence')},"
        f" {essays.total:,} tokens of '{tokenizer}'.",
        f"Works ({len(works)} tasks): {', '.join(works)}.",
    ]
    lines += [f"Lacks ({', '.join(names)}): {why}" for why, names in lacks.items()]
    there = len(pack.adjectives) * len(pack.nouns)
    needles = Dataset("niah_multikey_2", TRIED // 16, pack, counter).maker.haystack
    row = "{:>9}  {:>12}  {:>12}  {}".format
    lines += ["", row("tokens", "sentences", "keys", "needed; what there is")]
    told = pack.narrator.first(CHARACTERS * LENGTHS[-1]) if pack.narrator else []
    reached = essays.total + len("".join(told)) // CHARACTERS
    for length in LENGTHS:
        keys = POOL_FACTOR * length // needles.cheapest
        short = [f"sentences repeat {length / reached:.1f} times"] if length > reached else []
        short += [f"only {there:,} keys"] if keys > there else []
        needed = f"{length * len(essays.units) // essays.total:,}", f"{keys:,}"
        lines.append(row(f"{length:,}", *needed, ", ".join(short) or "enough"))
    return "\n".join(lines).replace(f"{pack.folder.as_posix()}/", "")


def _tasks(pack: Language, tokenizer: tokens.Tokenizer) -> tuple[list[str], dict[str, list[str]]]:
    """Return the tasks that a pack can ask, and those that it cannot by what they lack."""
    works, lacks = list[str](), dict[str, list[str]]()
    for task in TASKS:
        try:
            with warnings.catch_warnings(action="ignore"):
                Dataset(task, TRIED, pack, tokenizer)[0]
            works.append(task)
        except RulerError as error:
            lacks.setdefault(str(error), []).append(task)
    return works, lacks
