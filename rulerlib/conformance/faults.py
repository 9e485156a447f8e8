"""The faults of a port of RULER: what each looks for, and what RULER does instead.

>>> from pathlib import Path
>>> from rulerlib import tasks
>>> from rulerlib.conformance.layouts import PortAnswer, PortFile
>>> answers = [PortAnswer("record 1", "Who? Answer:", ("Ada", "Ada L."), pred=" Ada", score=0.5)]
>>> file = PortFile(Path("qa_1.jsonl"), tasks.TASKS["qa_1"], 4096, answers)
>>> [fault.name for fault in FAULTS if fault.look(file, None)[1]]
['gold not readable', 'part-match averaged']
"""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerlib import languages
from rulerlib.conformance.layouts import PortAnswer, PortFile
from rulerlib.metrics.matches import clean, normalize
from rulerlib.tokens import Tokenizer

_WORDS = Path(__file__).with_name("faults.toml")

SHARE = 0.05
"""The share of records up to which real questions may have no answer in their documents."""

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


Evidence = tuple[int, Sequence[PortAnswer], str]
"""How many records could be judged, those that show a fault, and the numbers behind it."""

_NOTHING: Evidence = (0, (), "")


@dataclass(frozen=True)
class Fault:
    """A way in which a port may differ from RULER.

    Attributes
    ----------
    name
        What it is called in reports.
    look
        Returns what a file shows of it, given the tokenizer, if there is one.
    ruler
        What RULER does.
    needs
        What a record must have for it to be judged.
    """

    name: str
    look: Callable[[PortFile, Tokenizer | None], Evidence]
    ruler: str
    needs: str


# --- Prompts ------------------------------------------------------------------------------------


@functools.cache
def _ending(family: str) -> re.Pattern[str]:
    """Return how the prompts of a family end: in RULER's wording, and in that of each pack.

    Those of the frontier may end in any way.
    """
    section, ruler = _SECTIONS.get(family, ("", "|"))
    packs = [languages.load(code) for code in languages.available()]
    worded = [pack.paraphrased(at) for pack in packs for at in range(pack.paraphrases + 1)]
    texts = [text.strip() for pack in worded for text in _prefixes(pack.templates.get(section))]
    ours = [re.sub(r"\\\{\w+\\\}", ".{1,999}?", re.escape(text)) for text in texts]
    return re.compile(rf"(?:{'|'.join([ruler, *ours])})\s*\Z")


def _prefixes(table: Any) -> list[str]:
    """Return every answer prefix in a part of a language pack."""
    if not isinstance(table, dict):
        return []
    inner = [text for value in table.values() for text in _prefixes(value)]
    return [*inner, *([table["answer_prefix"]] if "answer_prefix" in table else [])]


def _prefix_lost(file: PortFile, tokenizer: Tokenizer | None) -> Evidence:
    usual, lost = _ending(file.task.family.name), list[PortAnswer]()
    for answer in file.answers:
        if prefix := (answer.prefix or "").strip():
            ends = answer.prompt.rstrip().endswith(prefix)
        else:
            ends = bool(usual.search(answer.prompt[-2000:]))
        lost += [] if ends else [answer]
    evidence = f"Its prompt ends in {lost[0].prompt[-40:]!r}." if lost else ""
    return len(file.answers), lost, evidence


def _over_budget(file: PortFile, tokenizer: Tokenizer | None) -> Evidence:
    if file.length is None:
        return _NOTHING
    room = file.task.tokens_to_generate
    # NVIDIA's script for frequent words fills the whole length with the prompt.
    most = file.length + (room if file.task.family.name == "frequent_words" else 0)
    # Prompts of other tools may have a chat template in them.
    sizes = [
        max(
            answer.length or 0,
            tokenizer.count(tokenizer.mark(answer.prompt)) + room if tokenizer else 0,
        )
        for answer in file.answers
    ]
    over = [answer for answer, size in zip(file.answers, sizes, strict=True) if size > most]
    evidence = f"Prompt and answer take up to {max(sizes, default=0):,} tokens of {file.length:,}."
    return sum(size > 0 for size in sizes), over, evidence


def _unreadable(file: PortFile, tokenizer: Tokenizer | None) -> Evidence:
    any_one = file.task.scoring.ruler == "part_match"
    if file.task.scoring.ruler not in _RULES:
        return _NOTHING

    def readable(answer: PortAnswer) -> bool:
        folded = ""
        for reference in answer.outputs:
            stands = reference in answer.prompt
            if not stands:
                folded = folded or _plain(answer.prompt)
                stands = _plain(reference) in folded
            if stands == any_one:
                return any_one
        return not any_one

    # HotpotQA asks some questions whose answer is a word that need not stand anywhere.
    judged = [one for one in file.answers if not (any_one and {*one.outputs} <= {"yes", "no"})]
    missing = [answer for answer in judged if not readable(answer)]
    if any_one and len(missing) <= SHARE * len(judged):
        missing = []
    evidence = f"Its references are {', '.join(missing[0].outputs[:4])!r}." if missing else ""
    return len(judged), missing, evidence


def _plain(text: str) -> str:
    return " ".join(normalize(text).split())


def _twice(file: PortFile, tokenizer: Tokenizer | None) -> Evidence:
    tokens = sorted(map(re.escape, tokenizer.all_special_tokens)) if tokenizer else []
    special = re.compile("|".join([*tokens, _SPECIAL]))

    def begins_twice(answer: PortAnswer) -> bool:
        head = "".join(answer.prompt[:1000].split())
        return any(
            head.startswith(head[:size], size) and special.search(head[:size])
            for size in range(3, len(head) // 2 + 1)
        )

    shown = [answer for answer in file.answers if begins_twice(answer)]
    evidence = f"Its prompt begins {shown[0].prompt[:60]!r}." if shown else ""
    return len(file.answers), shown, evidence


# --- Answers ------------------------------------------------------------------------------------


def _truncated(file: PortFile, tokenizer: Tokenizer | None) -> Evidence:
    room = file.task.tokens_to_generate
    limits = [answer.room for answer in file.answers if answer.room is not None]
    short = [answer for answer in file.answers if (answer.room or room) < room]
    evidence = f"The model may write {min(limits)} tokens, and RULER's {room}." if short else ""
    return len(limits), short, evidence


# The rules that may explain recorded scores.
_RULES: dict[str, tuple[Callable[[list[bool]], float], str]] = {
    "recall": (lambda hits: sum(hits) / len(hits), "the share of the references that appear"),
    "all_match": (lambda hits: float(all(hits)), "1 if all references appear"),
    "part_match": (lambda hits: float(any(hits)), "1 if any one reference appears"),
}


def _scored(fault: str, file: PortFile, tokenizer: Tokenizer | None) -> Evidence:
    """Find out by which rule answers were scored, and whether that shows a fault.

    A rule explains the scores if it gives each recorded one, or the mean that is reported where
    there are no others.
    """
    answered = [answer for answer in file.answers if answer.pred is not None and answer.outputs]
    scoring, ruler = file.task.scoring, file.task.scoring.ruler

    def values_in(language: str) -> list[float]:
        """Return the scores by a rule of the task's own."""
        pairs = ((answer.pred or "", answer.outputs) for answer in answered)
        return [scoring.score(*pair, language=language)[ruler] for pair in pairs]

    def values(rule: str, fold: Callable[[str], str]) -> list[float]:
        texts = [fold(clean(answer.pred or "")) for answer in answered]
        pairs = zip(answered, texts, strict=True)
        return [_RULES[rule][0]([fold(one) in text for one in a.outputs]) for a, text in pairs]

    def differing(numbers: Sequence[float]) -> list[PortAnswer]:
        pairs = zip(answered, numbers, strict=True)
        wrong = [a for a, number in pairs if a.score is not None and abs(a.score - number) > 1e-6]
        mean = sum(numbers) / len(numbers) if numbers else 0.0
        # NVIDIA's script rounds to hundredths of a percent.
        apart = file.mean is not None and abs(file.mean - mean) > 6e-5
        return wrong or (answered if apart else [])

    scores = [answer for answer in answered if answer.score is not None or file.mean is not None]
    if ruler in _RULES:
        rights = [values(ruler, normalize), values(ruler, str.lower)]
    else:
        rights = [*map(values_in, languages.available())]
    expected, shown = rights[0], min(map(differing, rights), key=len)
    if not scores or not shown:
        return len(scores), (), ""
    explained, how = "", ""
    folds: tuple[Callable[[str], str], ...] = (normalize, str.lower, str)
    for fold, (rule, (_, words)) in itertools.product(folds, _RULES.items()):
        if not explained and not differing(values(rule, fold)):
            explained = rule if fold is not str else "case"
            case = " with upper and lower case told apart" if fold is str else ""
            how = f": the scores are {words}{case}"
    if _SCORE_FAULTS.get((ruler, explained), "score differs") != fault:
        return len(scores), (), ""
    recorded = shown[0].score
    right = expected[next(at for at, answer in enumerate(answered) if answer is shown[0])]
    evidence = f"Recorded is {recorded}, and RULER's rule gives {right:.4g}"
    if recorded in (None, right):
        mean = sum(expected) / len(answered)
        evidence = f"Reported is a mean of {file.mean:.4f}, and RULER's rule gives {mean:.4f}"
    return len(scores), shown, f"{evidence}{how}."


_SCORE_FAULTS = {
    ("part_match", "recall"): "part-match averaged",
    ("recall", "all_match"): "list all or nothing",
}


_LOOKS: dict[str, Callable[[PortFile, Tokenizer | None], Evidence]] = {
    "answer prefix lost": _prefix_lost, "prompt over budget": _over_budget,
    "answer truncated": _truncated,
    "gold not readable": _unreadable, "special tokens twice": _twice,
}  # fmt: skip

FAULTS = tuple(
    Fault(name, _LOOKS.get(name) or functools.partial(_scored, name), **words)
    for name, words in tomllib.loads(_WORDS.read_text("utf-8")).items()
)
"""All faults that are looked for, those of prompts first."""
