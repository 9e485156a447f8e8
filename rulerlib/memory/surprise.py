"""Surprise: how unexpected a text is to the reader that will be asked about it.

It is the mean negative log likelihood of the text's tokens, each given those before it, as a share
of that of a token drawn evenly from the whole vocabulary. 0: the reader knew every token for sure;
1: it knew no more than a drawn token would tell, or was more wrong than that.

>>> import math
>>> from rulerlib.models import Likelihood
>>> surprise(Likelihood(nll=10 * math.log(2), tokens=10), vocabulary=4096)
0.0833...
>>> surprise(Likelihood(nll=200.0, tokens=10), vocabulary=4096)
1.0
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from rulerlib.errors import require, whole_number
from rulerlib.models import Likelihood, Model


def surprise(likelihood: Likelihood, vocabulary: int) -> float:
    """Return how unexpected a text is, 0 to 1; 0 where no token of it was predicted.

    Parameters
    ----------
    likelihood
        How likely the text is to the reader.
    vocabulary
        How many different tokens the reader has.

    Raises
    ------
    ParameterError
        If ``vocabulary`` is no whole number from 2.
    """
    whole_number("vocabulary", vocabulary, 2)
    if not likelihood.tokens:
        return 0.0
    return min(1.0, max(0.0, likelihood.nll / likelihood.tokens / math.log(vocabulary)))


def surprises(reader: Model, texts: Iterable[str]) -> Iterator[float]:
    """Yield how unexpected each text is to a reader, in their order.

    A memory that is taught takes them as a function of the text:

    >>> texts = [fact.text for fact in facts]                               # doctest: +SKIP
    >>> unexpected = dict(zip(texts, surprises(reader, texts)))             # doctest: +SKIP
    >>> system.teach(episode, facts, unexpected.__getitem__)                # doctest: +SKIP

    Raises
    ------
    ParameterError
        If the reader's tokenizer has no vocabulary, as ``words`` has none, or the reader gives no
        log likelihoods; otherwise as `rulerlib.models.Model.log_likelihoods` says.
    """
    tokenizer = reader.tokenizer
    allowed = "the reader's own, because surprise is a share of what its vocabulary allows"
    require(tokenizer.vocabulary is not None, "tokenizer", tokenizer.name, allowed)
    for likelihood in reader.log_likelihoods(texts):
        yield surprise(likelihood, tokenizer.vocabulary or 0)
