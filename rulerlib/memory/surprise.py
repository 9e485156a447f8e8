"""Surprise: how unexpected a text is to the reader that will be asked about it.

The reader says how likely a text is: the mean negative log likelihood of its tokens, each given
those before it. What that number is worth differs from reader to reader and from language to
language, by far more than between two facts. So it is held against the texts that were taught
before: surprise is the share of them that the reader expected more. 0: all were less expected;
1: none was, as it is of the first one.

>>> from rulerlib.models import Likelihood
>>> told = [Likelihood(20.0, 10), Likelihood(30.0, 10), Likelihood(10.0, 10), Likelihood(25.0, 10)]
>>> [round(each, 2) for each in ranked(told)]
[1.0, 1.0, 0.33, 0.75]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

from rulerlib.models import Likelihood, Model


def ranked(likelihoods: Iterable[Likelihood]) -> Iterator[float]:
    """Yield how unexpected each text is beside those before it, above 0 and at most 1.

    Of ``n`` texts, the one itself included, ``k`` of which are expected more and ``e`` are expected
    alike, itself included: ``(k + (e + 1) / 2) / n``.

    Parameters
    ----------
    likelihoods
        How likely the texts are to the reader, in their order. Those of which no token was
        predicted count as fully expected.
    """
    rising: list[float] = []
    for each in likelihoods:
        value = each.nll / each.tokens if each.tokens else 0.0
        # In half precision, the last digits depend on what is read beside a text.
        value = float(f"{value:.3g}")
        insort(rising, value)
        below, alike = bisect_left(rising, value), bisect_right(rising, value)
        yield (below + (alike - below + 1) / 2) / len(rising)


def surprises(reader: Model, texts: Iterable[str]) -> Iterator[float]:
    """Yield how unexpected each text is to a reader, in the order in which they are taught.

    A memory that is taught takes them as a function of the text:

    >>> texts = [fact.text for fact in facts]                               # doctest: +SKIP
    >>> unexpected = dict(zip(texts, surprises(reader, texts)))             # doctest: +SKIP
    >>> system.teach(episode, facts, unexpected.__getitem__)                # doctest: +SKIP

    Raises
    ------
    ParameterError
        If the reader gives no log likelihoods; otherwise as
        `rulerlib.models.Model.log_likelihoods` says.
    """
    return ranked(reader.log_likelihoods(texts))
