"""The material of training examples: a recipe, its language packs, and prose in tokens."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from rulerlib import languages
from training import prose


class Material:
    """What examples are made of: language packs, and prose as token ids.

    Parameters
    ----------
    recipe
        The parsed recipe.toml.
    tokenizer
        The tokenizer of the model.
    """

    def __init__(self, recipe: Mapping[str, Any], tokenizer: Tokenizer) -> None:
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.packs = {code: languages.load(code) for code in recipe["data"]["languages"]}
        # Every sentence both after a space and after a line break.
        self._prose: dict[tuple[str, str], list[list[int]]] = {}
        for code in self.packs:
            rng = random.Random(f"prose-{recipe['seed']}-{code}")
            texts = prose.sentences(rng, code, recipe["data"]["sentences"])
            for separator in (" ", "\n"):
                batch = tokenizer.encode_batch(
                    [separator + text for text in texts], add_special_tokens=False
                )
                self._prose[code, separator] = [encoding.ids for encoding in batch]

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without special tokens."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    @functools.lru_cache(maxsize=100_000)  # noqa: B019 (one of them lives as long as its process)
    def cached(self, text: str) -> list[int]:
        """Return `encode` of a text that comes again and again; the caller must not change it."""
        return self.encode(text)

    def endless(self, rng: random.Random, code: str, separator: str) -> Iterator[list[int]]:
        """Yield sentences of prose as token ids, from a random one on and without an end.

        Parameters
        ----------
        separator
            What stands before each: a space or a line break.
        """
        pool = self._prose[code, separator]
        return itertools.islice(itertools.cycle(pool), rng.randrange(len(pool)), None)

    def without_separator(self, unit: Sequence[int]) -> list[int]:
        """Return a unit as the first of a context; a space is part of the word behind it."""
        return self.encode(self.tokenizer.decode(list(unit), skip_special_tokens=False)[1:])
