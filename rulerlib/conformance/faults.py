"""The faults of a port of RULER: what each looks for, and what RULER does instead.

>>> from pathlib import Path
>>> from rulerlib import tasks
>>> from rulerlib.conformance.records import Entry, Group
>>> entries = [Entry("record 1", "Who? Answer:", ("Ada", "Ada L."), pred=" Ada", score=0.5)]
>>> group = Group(Path("qa_1.jsonl"), tasks.TASKS["qa_1"], 4096, entries)
>>> [fault.name for fault in FAULTS if fault.look(group, None).shown]
['gold not readable', 'part-match averaged']
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rulerlib import languages
from rulerlib.conformance.records import Entry, Group
from rulerlib.metrics import clean, normalize
from rulerlib.tokens import Tokenizer

ERROR_RATE = 1e-4
"""How often at most a file whose depths are RULER's is said to have others."""

UNEVEN = 0.1
"""How far depths, counted in characters, may be from uniform where RULER draws sentences."""

SHARE = 0.05
"""The share of records up to which real questions may have no answer in their documents, and
answers may end within a reference by chance."""

# What the language packs call the families whose answer prefixes they have, and how RULER's own
# prompts end (config of NVIDIA's scripts; "assgined" is theirs, until it was mended).
_SECTIONS = {
    "niah": ("niah", r"special magic \w+ for .{1,999} mentioned in the provided text (?:is|are)"),
    "variable_tracking": ("variable_tracking", r"variables are ass(?:igned|gined) the value \S+,"
                          r" they are:"),
    "common_words": ("common_words", r"words that appear most often in the list are:"),
    "frequent_words": ("frequent_words", r"three most frequently appeared words are:"),
    "qa": ("question_answering", r"Answer:"),
}  # fmt: skip

_SPECIAL = (
    r"<\|[^|>]+\|>|<｜[^｜>]+｜>|</?s>|<[be]os>|\[/?INST\]|<<SYS>>|<(?:start|end)_of_turn>"
    r"|<[A-Z_]+_TOKEN>|\[gMASK\]"
)
"""Special tokens as the templates of many models write them."""


@dataclass(frozen=True)
class Outcome:
    """What a look at a group gave.

    Attributes
    ----------
    checked
        How many records it could judge.
    shown
        The records that show the fault.
    evidence
        The numbers behind it, as a sentence.
    """

    checked: int
    shown: Sequence[Entry] = ()
    evidence: str = ""


@dataclass(frozen=True)
class Fault:
    """A way in which a port may differ from RULER.

    Attributes
    ----------
    name
        What it is called in reports.
    look
        Returns what a group shows of it, given the tokenizer, if there is one.
    ruler
        What RULER does.
    needs
        What a record must have for it to be judged.
    """

    name: str
    look: Callable[[Group, Tokenizer | None], Outcome]
    ruler: str
    needs: str


# --- Prompts ------------------------------------------------------------------------------------


@functools.cache
def _ending(family: str) -> re.Pattern[str]:
    """Return how the prompts of a family end: in RULER's wording, and in that of each pack."""
    section, ruler = _SECTIONS[family]
    packs = [languages.load(code) for code in languages.available()]
    worded = [pack.paraphrased(at) for pack in packs for at in range(pack.paraphrases + 1)]
    tables = (pack.templates.get(section) for pack in worded)
    texts = [text.strip() for table in tables for text in _prefixes(table)]
    ours = [re.sub(r"\\\{\w+\\\}", ".{1,999}?", re.escape(text)) for text in texts]
    return re.compile(rf"(?:{'|'.join([ruler, *ours])})\s*\Z")


def _prefixes(table: Any) -> list[str]:
    """Return every answer prefix in a part of a language pack."""
    if not isinstance(table, dict):
        return []
    inner = [text for value in table.values() for text in _prefixes(value)]
    return [*inner, *([table["answer_prefix"]] if "answer_prefix" in table else [])]


def _prefix_lost(group: Group, tokenizer: Tokenizer | None) -> Outcome:
    known = _ending(group.task.family.name)

    def ends(entry: Entry) -> bool:
        if entry.prefix and entry.prefix.strip():
            return entry.prompt.rstrip().endswith(entry.prefix.strip())
        return bool(known.search(entry.prompt[-2000:]))

    # Of a prompt that is not whole, only the presence of a prefix says something.
    judged = [(entry, ends(entry)) for entry in group.entries]
    judged = [(entry, holds) for entry, holds in judged if holds or entry.whole]
    lost = [entry for entry, holds in judged if not holds]
    evidence = f"Its prompt ends in {lost[0].prompt[-40:]!r}." if lost else ""
    return Outcome(len(judged), lost, evidence)


def _over_budget(group: Group, tokenizer: Tokenizer | None) -> Outcome:
    if group.length is None:
        return Outcome(0)
    room = group.task.tokens_to_generate
    # NVIDIA's script for frequent words fills the whole length with the prompt.
    most = group.length + (room if group.task.family.name == "frequent_words" else 0)
    sizes = [
        max(entry.length or 0, tokenizer.count(entry.prompt) + room if tokenizer else 0)
        for entry in group.entries
    ]
    over = [entry for entry, size in zip(group.entries, sizes, strict=True) if size > most]
    evidence = f"Prompt and answer take up to {max(sizes, default=0):,} tokens of {group.length:,}."
    return Outcome(sum(size > 0 for size in sizes), over, evidence)


def _unreadable(group: Group, tokenizer: Tokenizer | None) -> Outcome:
    any_one = group.task.scoring.ruler == "part_match"

    def readable(entry: Entry) -> bool:
        folded = ""
        for reference in entry.outputs:
            stands = reference in entry.prompt
            if not stands:
                folded = folded or _plain(entry.prompt)
                stands = _plain(reference) in folded
            if stands == any_one:
                return any_one
        return not any_one

    # HotpotQA asks some questions whose answer is a word that need not stand anywhere.
    asked = [
        entry for entry in group.entries if not (any_one and _YES_NO.issuperset(entry.outputs))
    ]
    missing = [entry for entry in asked if not readable(entry)]
    if any_one and len(missing) <= SHARE * len(asked):
        missing = []
    evidence = f"Its references are {', '.join(missing[0].outputs[:4])!r}." if missing else ""
    return Outcome(len(asked), missing, evidence)


_YES_NO = frozenset({"yes", "no"})


def _plain(text: str) -> str:
    return " ".join(normalize(text).split())


def _depths(group: Group, tokenizer: Tokenizer | None) -> Outcome:
    """Hold the depths of needles against the uniform distribution.

    Of each record one needle counts, in turn the first, second, ... reference's, so that the
    depths are independent. The bound is that of Dvoretzky, Kiefer and Wolfowitz with Massart's
    constant (1990): the largest distance of an empirical distribution of n values from its own is
    above sqrt(ln(2 / ERROR_RATE) / 2n) at most in ERROR_RATE of all cases, whatever n. Beside it,
    RULER's own depths may be off uniform by one unit of the haystack, and by ``UNEVEN``.
    """
    if group.task.family.name != "niah":
        return Outcome(0)
    found: list[tuple[float, Entry]] = []
    fewest = math.inf
    for number, entry in enumerate(group.entries):
        value = entry.outputs[number % len(entry.outputs)] if entry.outputs else ""
        start, end = entry.prompt.find("\n") + 1, entry.prompt.rfind("\n")
        context = entry.prompt[start : end if end > start else None]
        at = context.find(value)
        if not value or at < 0:
            continue
        # The needle begins after the sentence or line before it.
        begin = max(context.rfind(mark, 0, at) + len(mark) for mark in ("\n", ". "))
        begin = begin if begin > 1 else 0
        rest = len(context) - (at + len(value) - begin)
        found.append((min(1.0, begin / max(1, rest)), entry))
        lines = context.count("\n")
        fewest = min(fewest, lines if lines > 3 else context.count(". "))
    size = len(found)
    bound = math.sqrt(math.log(2 / ERROR_RATE) / (2 * size)) if size else math.inf
    bound += UNEVEN + 1 / max(1, fewest)
    if bound >= 1:
        return Outcome(0)
    depths = sorted(depth for depth, _ in found)
    distance = max(
        max((at + 1) / size - depth, depth - at / size) for at, depth in enumerate(depths)
    )
    evidence = (
        f"The median depth of {size} needles is {100 * depths[size // 2]:.0f}, from 0 (start) to"
        f" 100 (end), and their distribution is {distance:.2f} away from uniform; chance would"
        f" allow {bound:.2f} (all but once in {1 / ERROR_RATE:,.0f} files)."
    )
    return Outcome(size, [entry for _, entry in found] if distance > bound else (), evidence)


def _twice(group: Group, tokenizer: Tokenizer | None) -> Outcome:
    own = sorted(map(re.escape, tokenizer.all_special_tokens)) if tokenizer else []
    special = re.compile("|".join([*own, _SPECIAL]))

    def begins_twice(entry: Entry) -> bool:
        if len(entry.ids) > 1 and entry.ids[0] == entry.ids[1]:
            return True
        head = "".join(entry.prompt[:1000].split())
        return any(
            head.startswith(head[:size], size) and special.search(head[:size])
            for size in range(3, len(head) // 2 + 1)
        )

    shown = [entry for entry in group.entries if begins_twice(entry)]
    evidence = f"Its prompt begins {shown[0].prompt[:60]!r}." if shown else ""
    return Outcome(len(group.entries), shown, evidence)


# --- Answers ------------------------------------------------------------------------------------


def _truncated(group: Group, tokenizer: Tokenizer | None) -> Outcome:
    room = group.task.tokens_to_generate
    limited = [entry for entry in group.entries if entry.room is not None]
    short = [entry for entry in limited if (entry.room or 0) < room]
    if short:
        least = min(entry.room or 0 for entry in short)
        return Outcome(
            len(limited), short, f"The model may write {least} tokens, and RULER's {room}."
        )
    judged, cut = len(limited), list[Entry]()
    for entry in group.entries:
        if entry.room is None and entry.pred is not None and (entry.generated or tokenizer):
            judged += 1
            size = entry.generated or (tokenizer.count(entry.pred) if tokenizer else 0)
            if size < room and _ends_within(entry.pred, entry.outputs):
                cut.append(entry)
    evidence = f"Its answer ends within a reference, {(cut[0].pred or '')[-40:]!r}." if cut else ""
    enough = len(cut) > 1 and len(cut) > SHARE * judged
    return Outcome(judged, cut if enough else (), evidence)


def _ends_within(pred: str, outputs: Sequence[str]) -> bool:
    """Return whether an answer ends with the beginning of a reference that it does not hold."""
    text = normalize(clean(pred))
    return any(
        reference not in text and text.endswith(tuple(map(reference.__getitem__, _BEGINNINGS)))
        for reference in map(normalize, outputs)
        if len(reference) > 4
    )


_BEGINNINGS = [slice(size) for size in range(4, 40)]


# How recorded scores are explained: what is made of upper and lower case, and which rule counts.
_FOLDS: dict[str, tuple[Callable[[str], str], ...]] = {
    "": (normalize, str.lower),
    " with upper and lower case told apart": (str,),
}
_RULES: dict[str, Callable[[list[bool]], float]] = {
    "recall": lambda hits: sum(hits) / len(hits),
    "part_match": lambda hits: float(any(hits)),
    "all_match": lambda hits: float(all(hits)),
}
_WORDS = {
    "recall": "the share of the references that appear",
    "part_match": "1 if any one reference appears",
    "all_match": "1 if all references appear",
}


def _scored(fault: str, group: Group, tokenizer: Tokenizer | None) -> Outcome:
    """Find out by which rule answers were scored, and whether that shows a fault.

    A rule explains the scores if it gives each recorded one, or the mean that is reported where
    there are no others.
    """
    answered = [entry for entry in group.entries if entry.pred is not None and entry.outputs]
    ruler = group.task.scoring.ruler

    def values(rule: str, fold: Callable[[str], str]) -> list[float]:
        return [
            _RULES[rule]([fold(each) in fold(clean(entry.pred or "")) for each in entry.outputs])
            for entry in answered
        ]

    def differing(numbers: Sequence[float]) -> list[Entry]:
        pairs = zip(answered, numbers, strict=True)
        wrong = [entry for entry, number in pairs if entry.score is not None
                 and abs(entry.score - number) > 1e-6]  # fmt: skip
        mean = sum(numbers) / len(numbers) if numbers else 0.0
        # NVIDIA's script rounds to hundredths of a percent.
        apart = group.mean is not None and abs(group.mean - mean) > 6e-5
        return wrong or (answered if apart else [])

    checked = len(answered) if group.mean is not None else sum(
        entry.score is not None for entry in answered
    )  # fmt: skip
    expected = [values(ruler, fold) for fold in _FOLDS[""]]
    shown = min(map(differing, expected), key=len)
    if not checked or not shown:
        return Outcome(checked)
    explained = next(
        (
            (rule, words)
            for words, folds in _FOLDS.items()
            for rule in sorted(_RULES, key=lambda rule: rule == "part_match")
            for fold in folds
            if not differing(values(rule, fold))
        ),
        None,
    )
    name = _SCORE_FAULTS.get((ruler, *explained) if explained else (), "score differs")
    if name != fault:
        return Outcome(checked)
    right = expected[0][next(at for at, entry in enumerate(answered) if entry is shown[0])]
    said = f"Recorded is {shown[0].score}, and RULER's rule gives {right:.4g}"
    if shown[0].score in (None, right):
        mean = sum(expected[0]) / len(answered)
        said = f"Reported is a mean of {group.mean:.4f}, and RULER's rule gives {mean:.4f}"
    how = f": the scores are {_WORDS[explained[0]]}{explained[1]}" if explained else ""
    return Outcome(checked, shown, f"{said}{how}.")


_SCORE_FAULTS: dict[tuple[str, ...], str] = {
    ("part_match", "recall", ""): "part-match averaged",
    ("recall", "all_match", ""): "list all or nothing",
}

_SCORES = "the files hold no scores"

FAULTS = (
    Fault(
        "answer prefix lost", _prefix_lost,
        "RULER's prompts end with the beginning of the answer, which the model continues.",
        "the records do not hold the whole prompt",
    ),
    Fault(
        "prompt over budget", _over_budget,
        "In RULER, the tokens of the prompt and those to generate fit the context length together.",
        "no context length is known (--length), or no number of tokens (--tokenizer)",
    ),
    Fault(
        "answer truncated", _truncated,
        "RULER lets a model write 128 tokens (needles), 30 (variable tracking), 120 (common words),"
        " 50 (frequent words) or 32 (questions).",
        "the records state no limit and no number of generated tokens (--tokenizer counts them)",
    ),
    Fault(
        "depth distribution", _depths,
        "RULER draws each needle's depth anew, uniformly over the haystack (in prose from 40"
        " evenly spaced depths).",
        "there are too few needles",
    ),
    Fault(
        "gold not readable", _unreadable,
        "In RULER, every reference stands in the prompt, and of a question's at least one.",
        "there are no records",
    ),
    Fault(
        "part-match averaged", functools.partial(_scored, "part-match averaged"),
        "RULER gives the whole point to a question's answer that holds any one reference.",
        _SCORES,
    ),
    Fault(
        "list all or nothing", functools.partial(_scored, "list all or nothing"),
        "RULER scores a list by the share of its references that appear.",
        _SCORES,
    ),
    Fault(
        "score differs", functools.partial(_scored, "score differs"),
        "RULER looks for each reference in the answer, upper and lower case alike, and nothing"
        " else.",
        _SCORES,
    ),
    Fault(
        "special tokens twice", _twice,
        "In RULER, a prompt has one beginning-of-text token and one chat template.",
        "there are no records",
    ),
)  # fmt: skip
"""All faults that are looked for, those of prompts first."""
