"""What a server does where a request says nothing: its own defaults, as far as it tells them.

OpenAI's protocol has no question for that. Some servers can be asked all the same, and say in their
list of models which server they are:

>>> row = {"id": "m", "owned_by": "llamacpp"}
>>> told = {"props": {"default_generation_settings": {"params": {"temperature": 0.8, "top_k": 40}}}}
>>> of_server(row, told.get)
{'source': '/props', 'temperature': 0.8, 'top_k': 40}
>>> of_server({"id": "m", "owned_by": "somebody"}, told.get)
'unknown'
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from rulerlib import checkpoints
from rulerlib.errors import ParameterError, RulerError, nearest, require
from rulerlib.escaping import one_line
from rulerlib.models.openai_transport import parsed

UNKNOWN = "unknown"
"""What is recorded where nobody says."""

# No sequence has so many tokens: a larger count is none.
MOST_TOKENS = 1 << 31

# What a value has to be to change nothing, for what requests leave to the server.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1, None),
    "repeat_penalty": (1, None),
    "presence_penalty": (0, None),
    "frequency_penalty": (0, None),
}
_NEUTRAL_DRAWN: dict[str, tuple[Any, ...]] = {
    "top_k": (0, -1, None),
    "min_p": (0, None),
    "typical_p": (1, None),
    "typ_p": (1, None),
}


def of_server(row: Mapping[str, Any], get: Callable[[str], Any]) -> dict[str, Any] | str:
    """Return the defaults of a served model by name, with their ``source``; `UNKNOWN` if unsaid.

    llama.cpp states them at ``/props``. SGLang states at ``/get_server_info`` what it was started
    with, and vLLM nothing; both take those of the model's ``generation_config.json`` if they were
    not told otherwise, which can be read where the model is a folder that is here as well.

    Parameters
    ----------
    row
        What the server's list of models says of this one.
    get
        Returns the JSON at a path beside that of the protocol; None where there is none.
    """
    owner, root = str(row.get("owned_by")).lower(), row.get("root") or row.get("id")
    if owner == "llamacpp":
        settings = inner(get("props"), "default_generation_settings")
        return _named("/props", inner(settings, "params") or settings)
    if owner == "sglang":
        told = get("get_server_info")
        preferred = told.get("preferred_sampling_params") if isinstance(told, dict) else None
        if isinstance(preferred, str):
            preferred = parsed(preferred)
        if isinstance(preferred, dict):
            return _named("/get_server_info", preferred)
        if isinstance(told, dict) and told.get("sampling_defaults") == "openai":
            return {"source": "/get_server_info"}
        root = told.get("model_path", root) if isinstance(told, dict) else root
    return _of_folder(str(root)) if owner in ("sglang", "vllm") else UNKNOWN


def listed(answer: Any) -> list[dict[str, Any]]:
    """Return those rows of a server's list of models that have a name; empty where it is none."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    rows = rows if isinstance(rows, list) else []
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]


def counted(value: Any) -> int | None:
    """Return a number of tokens that a server counts; None where it is none.

    >>> [counted(value) for value in (3, 0, 3.0, "3", True, -5, 10**30, None)]
    [3, 0, None, None, None, None, None, None]
    """
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def limit(rows: list[dict[str, Any]], name: str) -> int | None:
    """Return the longest sequence of a model in tokens, as vLLM's list of models states it.

    Parameters
    ----------
    rows
        From `listed`.

    Returns
    -------
    int or None
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
    allowed = "a number of tokens where the server lists it, or given as an option"
    require(stated is None or (length or 0) > 1, "max_model_len", stated, allowed)
    return length


def warn(defaults: dict[str, Any] | str, said: Mapping[str, Any]) -> None:
    """Say in one sentence what a server adds to requests by itself, see `changing`."""
    added = changing(defaults, said)
    if added:
        named = ", ".join(f"{name} = {value}" for name, value in added.items())
        warnings.warn(
            f"The server adds settings of its own to requests that do not set them: {named}."
            " The option 'body' sets them.",
            stacklevel=3,
        )


def changing(defaults: dict[str, Any] | str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a server's defaults that change answers and that no request sets.

    >>> changing({"source": "/props", "repeat_penalty": 1.1, "top_k": 40}, {"temperature": 0})
    {'repeat_penalty': 1.1}

    Parameters
    ----------
    defaults
        From `of_server`.
    said
        What requests say.
    """
    if isinstance(defaults, str):
        return {}
    neutral = _NEUTRAL if said.get("temperature") == 0 else {**_NEUTRAL, **_NEUTRAL_DRAWN}
    return {
        name: value
        for name, value in defaults.items()
        if name in neutral and name not in said and value not in neutral[name]
    }


def _of_folder(root: str) -> dict[str, Any] | str:
    """Return what the generation_config.json of a model says; `UNKNOWN` where it is not here."""
    try:
        if not checkpoints.is_here(root):
            return UNKNOWN
        return {"source": "generation_config.json", **checkpoints.decoding_defaults(root)}
    except RulerError:
        return UNKNOWN


def inner(values: Any, name: str) -> dict[str, Any]:
    """Return the object that stands under a name in another; an empty one where none does."""
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, dict) else {}


def _named(source: str, values: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return those values that decide how tokens are chosen."""
    known = checkpoints.of_decoding(values)
    return {"source": source, **known} if known else UNKNOWN
