"""What a server says: the first choice of an answer, how likely a text is, and its own defaults.

How likely a text is, the ``completions`` of OpenAI's first protocol tell: with ``echo`` the prompt
comes back before the answer, and with ``logprobs`` the log likelihood of each token. vLLM's server
does so, others ignore one of the two, and a server of chats alone knows neither.

>>> logprobs = {"token_logprobs": [None, -1.5, -0.25, -3.0]}
>>> answer = {"choices": [{"logprobs": logprobs}], "usage": {"prompt_tokens": 3}}
>>> read_likelihood(answer, unpredicted=1)
Likelihood(nll=1.75, tokens=2)

For its defaults the protocol has no question. Some servers can be asked all the same, and say in
their list of models which server they are:

>>> row = {"id": "m", "owned_by": "llamacpp"}
>>> told = {"props": {"default_generation_settings": {"params": {"temperature": 0.8, "top_k": 40}}}}
>>> server_defaults(row, told.get)
{'source': '/props', 'temperature': 0.8, 'top_k': 40}
>>> server_defaults({"id": "m", "owned_by": "somebody"}, told.get)
'unknown'
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from rulerlib import checkpoints
from rulerlib.errors import LARGEST, ParameterError, RulerError, is_number, nearest, require
from rulerlib.escaping import one_line
from rulerlib.models import Likelihood
from rulerlib.models.openai_transport import PassingFault

ECHO = {"temperature": 0, "echo": True, "logprobs": 1}
"""What a request for a likelihood says besides the model, the text and the one new token."""

UNKNOWN = "unknown"
"""What is recorded where a server does not tell its defaults."""

# No sequence has so many tokens: a larger count is none.
MOST_TOKENS = 1 << 31

# What a value has to be to change nothing, for what requests leave to the server; the second half
# changes nothing either where tokens are not drawn.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1, None), "repeat_penalty": (1, None), "presence_penalty": (0, None),
    "frequency_penalty": (0, None),
}  # fmt: skip
_NEUTRAL_DRAWN: dict[str, tuple[Any, ...]] = {
    **_NEUTRAL, "top_k": (0, -1, None), "min_p": (0, None), "typical_p": (1, None),
    "typ_p": (1, None),
}  # fmt: skip


def inner(values: Any, name: str) -> dict[str, Any]:
    """Return the object that stands under a name in another; an empty one where none does."""
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, dict) else {}


def counted(value: Any) -> int | None:
    """Return a number of tokens that a server counts; None where it is none.

    >>> [counted(value) for value in (3, 0, 3.0, "3", True, -5, 10**30, None)]
    [3, 0, None, None, None, None, None, None]
    """
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def first_choice(answer: Mapping[str, Any]) -> dict[str, Any]:
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


def read_likelihood(answer: dict[str, Any], unpredicted: int) -> Likelihood:
    """Return how likely a server says a text is.

    Parameters
    ----------
    answer
        What the server sent.
    unpredicted
        How many tokens a text begins with that are not predicted, at least one.

    Raises
    ------
    PassingFault
        If it is no answer: it is asked for again.
    ParameterError
        If the text did not come back with the log likelihood of each of its tokens.
    """
    values = inner(first_choice(answer), "logprobs").get("token_logprobs")
    if not isinstance(values, list):
        raise no_likelihoods("its answer has none")
    read = counted(inner(answer, "usage").get("prompt_tokens"))
    # The last token of all is not the text's, but generated.
    read = len(values) - 1 if read is None else read
    # Nothing stands before the first token. Where it has a number nevertheless, the list may be of
    # what was generated alone.
    if not 0 < read <= len(values) or values[0] is not None:
        raise no_likelihoods("its answer has those of what it generated alone")
    predicted = values[unpredicted:read]
    # Rounding may leave a certain token a little above 0.
    if not all(is_number(value) and -LARGEST <= value <= 0.01 for value in predicted):
        raise no_likelihoods("its answer leaves some out")
    return Likelihood(-math.fsum(predicted), len(predicted))


def no_likelihoods(why: str) -> ParameterError:
    """Return the error that says that a server gives no log likelihoods of a text."""
    allowed_values = (
        f"'none', because the server gives no log likelihoods of what it reads ({why}); vLLM's"
        " server does, and so do the engines transformers and vllm"
    )
    return ParameterError("surprise", "reader", allowed_values)


def listed_models(answer: Any) -> list[dict[str, Any]]:
    """Return those rows of a server's list of models that have a name; empty where it is none."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    rows = rows if isinstance(rows, list) else []
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]


def listed_limit(rows: list[dict[str, Any]], name: str) -> int | None:
    """Return the longest sequence of a model in tokens, as vLLM's list of models states it.

    None where the server does not say.

    Raises
    ------
    ParameterError
        If the model is not among those that are listed, or what is stated is no number of tokens.
    """
    limits = {row["id"]: row.get("max_model_len") for row in rows}
    # A server that states its limit has no other models than those it lists.
    if name not in limits and any(counted(stated) for stated in limits.values()):
        names = [one_line(listed_name, 100) for listed_name in limits]
        raise ParameterError("model", name, nearest(name, names[:50] + ["..."] * (len(names) > 50)))
    stated = limits.get(name)
    length = counted(stated)
    allowed_values = "a number of tokens where the server lists it, or given as an option"
    require(stated is None or (length or 0) > 1, "max_model_len", stated, allowed_values)
    return length


def server_defaults(row: Mapping[str, Any], get: Callable[[str], Any]) -> dict[str, Any] | str:
    """Return the defaults of a served model by name, with their ``source``; `UNKNOWN` if unsaid.

    llama.cpp states them at ``/props``. vLLM takes those of the model's ``generation_config.json``,
    which can be read where the model is a folder that is here as well.

    Parameters
    ----------
    row
        What the server's list of models says of this one.
    get
        Returns the JSON at a path beside that of the protocol; None where there is none.
    """
    owner, root = str(row.get("owned_by")).lower(), str(row.get("root") or row.get("id"))
    if owner == "llamacpp":
        settings = inner(get("props"), "default_generation_settings")
        values = checkpoints.of_decoding(inner(settings, "params") or settings)
        return {"source": "/props", **values} if values else UNKNOWN
    if owner == "vllm":
        with contextlib.suppress(RulerError):
            if checkpoints.is_here(root):
                values = checkpoints.decoding_defaults(root)
                return {"source": "generation_config.json", **values}
    return UNKNOWN


def added_settings(defaults: dict[str, Any] | str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a server's defaults that change answers and that no request sets.

    >>> added_settings({"source": "/props", "repeat_penalty": 1.1, "top_k": 40}, {"temperature": 0})
    {'repeat_penalty': 1.1}

    Parameters
    ----------
    defaults
        From `server_defaults`.
    fields
        What requests say.
    """
    if isinstance(defaults, str):
        return {}
    neutral = _NEUTRAL if fields.get("temperature") == 0 else _NEUTRAL_DRAWN
    return {
        name: value
        for name, value in defaults.items()
        if name in neutral and name not in fields and value not in neutral[name]
    }


def warn_of_added(defaults: dict[str, Any] | str, fields: Mapping[str, Any]) -> None:
    """Say in one sentence what a server adds to requests by itself, see `added_settings`."""
    added = added_settings(defaults, fields)
    if added:
        named = ", ".join(f"{name} = {value}" for name, value in added.items())
        warnings.warn(
            f"The server adds settings of its own to requests that do not set them: {named}."
            " The option 'body' sets them.",
            stacklevel=3,
        )
