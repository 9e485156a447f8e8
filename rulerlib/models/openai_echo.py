"""How likely a text is to a model behind a server: the text is sent back with its log likelihoods.

OpenAI's first protocol has this for ``completions``: with ``echo`` the prompt comes back before the
answer, and with ``logprobs`` the log likelihood of each token. vLLM's server does so, others ignore
one of the two, and a server of chats alone knows neither. What was not said is not guessed.

>>> logprobs = {"token_logprobs": [None, -1.5, -0.25, -3.0]}
>>> answer = {"choices": [{"logprobs": logprobs}], "usage": {"prompt_tokens": 3}}
>>> likelihood(answer, given=1)
Likelihood(nll=1.75, tokens=2)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rulerlib.errors import LARGEST, ParameterError, is_number
from rulerlib.models import Likelihood
from rulerlib.models.openai_defaults import counted, inner
from rulerlib.models.openai_transport import PassingFault

FIELDS = {"temperature": 0, "echo": True, "logprobs": 1}
"""What a request says besides the model, the text and the one token that is generated."""


def likelihood(answer: dict[str, Any], given: int) -> Likelihood:
    """Return how likely a server says a text is.

    Parameters
    ----------
    answer
        What the server sent.
    given
        How many tokens a text begins with that are not predicted, at least one.

    Raises
    ------
    openai_transport.PassingFault
        If it is no answer: it is asked for again.
    ParameterError
        If the text did not come back with the log likelihood of each of its tokens.
    """
    each = inner(choice(answer), "logprobs").get("token_logprobs")
    if not isinstance(each, list):
        raise ungiven("its answer has none")
    read = counted(inner(answer, "usage").get("prompt_tokens"))
    # The last token of all is not the text's, but generated.
    read = len(each) - 1 if read is None else read
    # Nothing stands before the first token. Where it has a number nevertheless, the list may be of
    # what was generated alone.
    if not 0 < read <= len(each) or each[0] is not None:
        raise ungiven("its answer has those of what it generated alone")
    predicted = each[given:read]
    # Rounding may leave a certain token a little above 0.
    if not all(is_number(value) and -LARGEST <= value <= 0.01 for value in predicted):
        raise ungiven("its answer leaves some out")
    return Likelihood(-math.fsum(predicted), len(predicted))


def ungiven(why: str) -> ParameterError:
    """Return the error that says that a server gives no log likelihoods of a text."""
    allowed = (
        f"'none', because the server gives no log likelihoods of what it reads ({why}); vLLM's"
        " server does, and so do the engines transformers and vllm"
    )
    return ParameterError("surprise", "reader", allowed)


def choice(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of an answer, of which each request asks for one.

    Raises
    ------
    PassingFault
        If it is not there, or the server gave it up.
    """
    choices = answer.get("choices")
    rows = [row for row in choices if isinstance(row, dict)] if isinstance(choices, list) else []
    first = next((row for row in rows if row.get("index") in (0, None)), None)
    if first is None:
        raise PassingFault("no choices", "an answer without a first choice")
    if first.get("finish_reason") in ("abort", "error"):
        raise PassingFault("aborted", "an answer that the server itself gave up")
    return first
