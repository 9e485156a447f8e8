"""DROP's official measures: exact match, and F1 of spans that are aligned (Dua et al. 2019).

Each span is a bag of words, without articles and punctuation and with its numbers as floats;
the spans of an answer and of a gold (an accepted answer) are aligned one to one, so that the sum
of their F1 is largest; a gold with a number counts only where the answer has one of its numbers;
and of all golds the best one counts ("DROP: A Reading Comprehension Benchmark Requiring Discrete
Reasoning Over Paragraphs", section 5).

>>> drop_f1("Denver Broncos and Oakland", [("Oakland", "Denver Broncos"), ("Denver",)])
1.0
>>> drop_f1("about 24 yards", ["24"]), drop_f1("24 yards", ["25 yards"])
(0.5, 0.0)
>>> drop_em("38 yards", ["38-yard", "38 yards"])
1.0

The values are those of lm-eval's task ``drop`` but for what that one, and the official script
with it, gets wrong:

- **Sign.** There a hyphen parts words, and "-5" is "5". Here it is a minus before a number that
  follows no letter or digit.
- **Decimal mark.** There a number with any other mark at it loses its decimal mark, so that
  "$3.5" and "3.5%" are 35, and "1,234.5" is 12345.
- **Words that Python reads as numbers.** There "infinity" is a number and equal to "inf"; here
  no word is.
- **Spans in a text.** There the whole text is one span, so that no answer to a question for
  several spans can be right. Here it is read as a list, too, where the gold has several spans.
- **Nothing left.** There the gold "A" is empty without its article, and the answer "" right.
- **White space.** There only a space parts words, and "5", a line break and "yards" hold no
  number.
- **Repeated spans.** There the spans "a, a, b" match the spans "a, b, b" exactly.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rulerlib.metrics.words import Golds, best, f1, finite, normalized, reading, spans_of

# Between words: white space, and any hyphen but a minus sign before a number.
_SPLIT = re.compile(r"\s|(?<=[\w-])-|-(?!\$?\.?\d)")

# Between the items of a list; not the comma in a number.
_MARKS = r"[;\n]|,(?!\d)|(?<!\d),"


def drop_em(pred: str, golds: Golds, language: str = "en") -> float:
    """Return 1 if the answer has just the spans of a gold, in any order, else 0.

    Raises
    ------
    ParameterError
        If there is no such language.
    """
    return best([
        float(Counter(said) == Counter(wanted))
        for said, wanted in _pairs(pred, golds, language)
    ])  # fmt: skip


def drop_f1(pred: str, golds: Golds, language: str = "en") -> float:
    """Return the F1 of the answer's spans and those of the best gold, 0 to 1, with 2 decimals.

    Raises
    ------
    ParameterError
        If there is no such language.
    """
    return best([_aligned(said, wanted) for said, wanted in _pairs(pred, golds, language)])


def lists(pred: str, language: str = "en") -> list[list[str]]:
    """Return the spans of an answer in each way to read it as a list.

    Returns
    -------
    list of list of str
        The whole as one span; parted at commas, semicolons and line breaks, but not in a number;
        and parted at "and" as well, which may also stand in a name.

    Raises
    ------
    ParameterError
        If there is no such language.
    """
    last, text = rf"(?i:{re.escape(reading(language).last)})(?=\s)", pred.strip()
    marks = rf"(?:{_MARKS})(?:[^\S\n]*{last})?"
    ways = (re.split(way, text) for way in (marks, rf"{marks}|(?<=\s){last}"))
    return [[text], *([span for piece in way if (span := piece.strip())] for way in ways)]


def _pairs(pred: str, golds: Golds, language: str) -> list[tuple[list[str], list[str]]]:
    """Return the normalized spans of the answer, as far as they can be meant, and of each gold."""

    def normal(texts: Sequence[str]) -> list[str]:
        return [text for span in texts if (text := normalized(span, language, _SPLIT))]

    answers = [normal(texts) for texts in lists(pred, language)]
    wanted = [spans for gold in golds if (spans := normal(spans_of(gold)))]
    return [(said, gold) for gold in wanted for said in answers[: None if len(gold) > 1 else 1]]


def _aligned(said: list[str], wanted: list[str]) -> float:
    """Return the mean F1 of spans that are aligned; a span without a partner counts 0."""
    bags = [[{*span.split()} for span in texts] for texts in (wanted, said)]
    scores = [[_f1(one, other) for one in bags[1]] for other in bags[0]]
    mean = sum(_assigned(scores)) / max(map(len, bags))
    # As numpy rounds, which lm-eval does; Python's round is of the exact binary fraction.
    return round(100 * mean) / 100


def _f1(said: set[str], wanted: set[str]) -> float:
    """Return the F1 of two bags of words; 0 if the gold has numbers, and the answer none of them.

    A bag is a set here, as in the official script: a word counts once.
    """
    numbers = {word for word in wanted if finite(word) is not None}
    if numbers and not numbers & said:
        return 0.0
    return f1(len(said & wanted), len(said), len(wanted))


def _assigned(scores: list[list[float]]) -> list[float]:
    """Return the scores of the one-to-one assignment of rows to columns whose sum is largest.

    The Hungarian method, by shortest augmenting paths with potentials (Kuhn 1955, "The Hungarian
    Method for the Assignment Problem"; Jonker and Volgenant 1987, "A Shortest Augmenting Path
    Algorithm for Dense and Sparse Linear Assignment Problems"), a row at a time.
    """
    if not scores or not scores[0]:
        return []
    if len(scores) > len(scores[0]):
        return _assigned([list(column) for column in zip(*scores, strict=True)])
    columns = range(len(scores[0]))
    of_rows, of_columns = [0.0] * len(scores), [0.0] * len(columns)
    owner = [-1] * len(columns)
    for row in range(len(scores)):
        # Shortest paths from this row to every column, through columns that are owned.
        distance, before = [float("inf")] * len(columns), [-1] * len(columns)
        settled: list[int] = []
        here, reached, at = row, 0.0, -1
        while at < 0 or owner[at] >= 0:
            here = row if at < 0 else owner[at]
            for column in columns:
                step = reached - scores[here][column] - of_rows[here] - of_columns[column]
                if column not in settled and step < distance[column]:
                    distance[column], before[column] = step, at
            at = min((c for c in columns if c not in settled), key=distance.__getitem__)
            reached = distance[at]
            settled.append(at)
        of_rows[row] += reached
        for column in settled[:-1]:
            of_rows[owner[column]] += reached - distance[column]
            of_columns[column] -= reached - distance[column]
        while at >= 0:
            owner[at] = owner[before[at]] if before[at] >= 0 else row
            at = before[at]
    pairs = sorted((row, column) for column, row in enumerate(owner) if row >= 0)
    return [scores[row][column] for row, column in pairs]
