"""Batches to train on: a function of the recipe, its seed and the step.

The examples come from `training.needles`, `training.families`, `training.suites` and
`training.reading`; here they are drawn, put beside each other, and given position numbers. Batch k
of a seed is the same whoever asks for it and whenever: nothing but (seed, k) and the recipe decides
it, so that a run that was killed continues on the same stream.

Processes that make batches ahead import this module, and so nothing here needs torch.
"""

from __future__ import annotations

import math
import multiprocessing as mp
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, Full
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from training.examples import Example, Maker, draw
from training.families import Families
from training.material import Material
from training.needles import Needles
from training.reading import Reading
from training.recipe import total_steps
from training.suites import Suites
from training.tokenizer import PAD

KINDS = (
    *("lines", "series", "single", "dense", "uuid", "query", "value", "vt", "cwe", "fwe", "qa"),
    *("episodic", "multi", "semantic", "drop"),
)


@dataclass(eq=False)
class Batch:
    """The examples of one step, padded on the right to one length.

    Attributes
    ----------
    tokens, positions
        Both (rows, length): token ids, and position numbers.
    places
        (places,): the places in the flattened batch whose next token is learned.
    targets
        (places, alternatives): the tokens that are right there, -1 where there are fewer. The
        first one is the token that follows.
    answer
        (places,): the number of the answer that each place belongs to, from 0.
    kinds
        (answers,): the kind of each answer, an index into KINDS.
    """

    tokens: np.ndarray
    positions: np.ndarray
    places: np.ndarray
    targets: np.ndarray
    answer: np.ndarray
    kinds: np.ndarray

    @property
    def length(self) -> int:
        """Tokens of a row."""
        return self.tokens.shape[1]


class Source:
    """The batches of a recipe: the same for the same recipe, whoever asks.

    Parameters
    ----------
    recipe
        The parsed recipe.toml.
    tokenizer
        The tokenizer of the model.
    """

    def __init__(self, recipe: Mapping[str, Any], tokenizer: Tokenizer) -> None:
        self.recipe = recipe
        self.seed = recipe["seed"]
        material = Material(recipe, tokenizer)
        self._needles = Needles(material)
        families, suites, reading = Families(material), Suites(material), Reading(material)
        self._makers: dict[str, Maker] = {
            **dict.fromkeys(families.makers, families),
            **dict.fromkeys(suites.makers, suites),
            **dict.fromkeys(reading.makers, reading),
        }

    # -- batches -----------------------------------------------------------------------

    def phase(self, step: int) -> Mapping[str, Any]:
        """Return the phase of the curriculum that a step belongs to."""
        for phase in self.recipe["phases"]:
            if step < phase["steps"]:
                return phase
            step -= phase["steps"]
        return self.recipe["phases"][-1]

    def batch(self, step: int) -> Batch:
        """Return the batch of a step: a function of the recipe, its seed and the step alone."""
        phase = self.phase(step)
        rng = random.Random(f"{self.seed}/{step}")
        length = int(draw(rng, phase["lengths"]))
        rows = max(1, self.recipe["batch"]["tokens"] // length)
        tokens = np.full((rows, length), PAD, dtype=np.int64)
        positions = np.zeros((rows, length), dtype=np.int64)
        places: list[int] = []
        targets: list[tuple[int, ...]] = []
        answer: list[int] = []
        kinds: list[int] = []
        for row in range(rows):
            rng = random.Random(f"{self.seed}/{step}/{row}")
            example = self.example(rng, length, phase["tasks"])
            tokens[row, : len(example.tokens)] = example.tokens
            reach = phase["reach"] if rng.random() < phase["jumps"] else 0
            positions[row] = self.positions(rng, example.seams, length, reach)
            for one in example.answers:
                places += range(row * length + one.start - 1, row * length + one.end - 1)
                targets += one.right
                answer += [len(kinds)] * len(one.right)
                kinds.append(KINDS.index(one.kind))
        most = max(map(len, targets))
        return Batch(
            tokens,
            positions,
            np.array(places),
            np.array([right + (-1,) * (most - len(right)) for right in targets]),
            np.array(answer),
            np.array(kinds),
        )

    @staticmethod
    def positions(rng: random.Random, seams: Sequence[int], length: int, reach: int) -> np.ndarray:
        """Return position numbers that jump ahead at some seams, so that far distances are seen.

        Within a unit they count by one as always. The last position is at most ``reach``,
        and its logarithm is drawn evenly.

        Parameters
        ----------
        seams
            Where, in tokens, positions may jump.
        length
            Tokens of the row.
        reach
            How far positions may go; if that is no more than ``length``, none jumps.

        Returns
        -------
        array
            (length,), from 0.
        """
        steps = np.ones(length, dtype=np.int64)
        steps[0] = 0
        if reach > length and seams:
            far = int(math.exp(rng.uniform(math.log(length), math.log(reach)))) - length
            count = min(len(seams), rng.choice((1, 2, 6, len(seams))))
            chosen = rng.sample(list(seams), count)
            shares = np.array([rng.expovariate(1) for _ in chosen])
            steps[chosen] += (shares / shares.sum() * far).astype(np.int64)
        return np.cumsum(steps)

    # -- examples ----------------------------------------------------------------------

    def example(self, rng: random.Random, length: int, tasks: Mapping[str, float]) -> Example:
        """Return an example of at most ``length`` tokens, of a task that is drawn by its weight."""
        task = draw(rng, tasks)
        code = draw(rng, self.recipe["data"]["languages"])
        maker = self._makers.get(task, self._needles)
        while True:
            # The few drawings that do not fit (long uuids in a short context) are redrawn.
            example = maker.make(task, rng, length, code)
            if example is not None and len(example.tokens) <= length:
                return example


# -- made ahead ------------------------------------------------------------------------


def _produce(queue: Any, recipe: Mapping[str, Any], tokenizer: str, steps: range) -> None:
    source = Source(recipe, Tokenizer.from_str(tokenizer))
    parent = mp.parent_process()
    for step in steps:
        batch = source.batch(step)
        while True:
            try:
                queue.put((step, batch), timeout=5)
                break
            except Full:
                # A trainer that was killed takes nothing any more; do not outlive it.
                if parent is not None and not parent.is_alive():
                    os._exit(0)


def batches(
    recipe: Mapping[str, Any], tokenizer: Tokenizer, start: int, workers: int = 1
) -> Iterator[tuple[int, Batch]]:
    """Yield the batches from step ``start`` on, made ahead by ``workers`` processes in turn.

    Raises
    ------
    RuntimeError
        If one of these processes has died.
    """
    context = mp.get_context("spawn")
    queues, processes = [], []
    for first in range(start, start + workers):
        queues.append(context.Queue(maxsize=8))
        steps = range(first, total_steps(recipe), workers)
        processes.append(
            context.Process(
                target=_produce, args=(queues[-1], recipe, tokenizer.to_str(), steps), daemon=True
            )
        )
        processes[-1].start()
    try:
        for step in range(start, total_steps(recipe)):
            worker = (step - start) % workers
            while True:
                try:
                    batch = queues[worker].get(timeout=1)
                    break
                except Empty:
                    if not processes[worker].is_alive():
                        raise RuntimeError(
                            f"The process that makes batch {step} has died; "
                            "what it said of the reason stands above."
                        ) from None
            yield batch
    finally:
        for process in processes:
            process.terminate()
            process.join()
