"""The structure that the weights of the model inside start from.

From a random start nothing retrieves within a CPU's budget of tokens: the circuits
that copy by looking things up form late. So the starting weights already lean towards
them. Nothing is frozen, and training is free to undo it. The residual stream starts out as

==========  ====================================================================
dimensions  what a position holds there
==========  ====================================================================
token       which token stands here (the embedding)
previous    which token stands before it (first layer, head 0)
second      which token stands two before it (first layer, head 1)
near        a soft sum of the tokens about 7 back: "the bag of the key" at a value
far         a soft sum of the tokens about 12 back: the same, at the end of a prompt,
            where the answer prefix says the key and then some more words
==========  ====================================================================

Two heads of the second layer copy by induction: they attend to where the previous token was
this one. Heads of the later layers attend to positions with a similar bag. The rest is laid out
for lists and chains:

==============  ================================================================
layer, head     what it does at the start
==============  ================================================================
second, 2       brings the beginning of the word before, which it knows by the space
                in front of it: behind ``VAR B = VAR A.``, this is B
second, 3       brings the value of the same key that stood before this one
third, 2        looks everywhere alike and copies tokens: it counts
third, 3        looks for another place with the same two tokens before it: behind what
                was said, that is behind the same in the text, where what comes next
                was brought to
last, 0 and 2   say what was brought to a token before
last, 3         looks some dozens of tokens back for items of a list (the token after
                a space, a comma, a colon or a full stop) and takes them away from the
                logits: what was said already is not said again
==============  ================================================================

A trained model may also be made deeper (`grow`). A new layer writes nothing at first, so that the
model says what it said before; it reads at once, though. Heads of the new layer look for earlier
copies of what stands here (of this token; of it and the one before; of it and two before) and for
the beginning of the text alike. The share of attention that is left to the beginning falls with the
number of copies: it is a count (Behrens and others, 2025).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from training.model import Lille

# Dimensions at the start, see the table at the top. 17 of the 20 slow pairs of dimensions of a
# head carry a bag, all 20 the previous token, every second one the token before.
_TOKEN = 128
_SLOW_FROM = 12
_BAG_FROM = 15


class _Head:
    """One head's part of the weights, and ways to lay into it what it looks for and copies.

    Parameters
    ----------
    model, layer, number
        Which head.
    """

    def __init__(self, model: Lille, layer: int, number: int) -> None:
        attention = model.layers[layer].self_attn
        rows = slice(number * model.shape.head, (number + 1) * model.shape.head)
        self.frequencies = model.shape.frequencies()
        self.q, self.k = attention.q_proj.weight[rows], attention.k_proj.weight[rows]
        self.q_bias, self.k_bias = attention.q_proj.bias[rows], attention.k_proj.bias[rows]
        self.v, self.o = attention.v_proj.weight[rows], attention.o_proj.weight[:, rows]

    def quiet(self) -> None:
        """Look for little else than what is laid in."""
        self.q *= 0.1
        self.k *= 0.1

    def look(self, back: int, strength: Tensor) -> None:
        """Look ``back`` tokens back, by the biases of query and key alone.

        `strength` has one number for each pair of dimensions; the first ones look sharply, the
        last ones widely.
        """
        turn = -back * self.frequencies
        self.k_bias[:] = torch.cat([strength, torch.zeros_like(strength)])
        self.q_bias[:] = torch.cat([strength * turn.cos(), strength * turn.sin()])

    def compare(self, dims: Tensor, here: Tensor, there: Tensor, size: float) -> None:
        """Look for where the residual dimensions `there` are like those `here`.

        Each is compared in one of the `dims` of the head. `here` may also be a code of token
        dimensions, a row for each of `dims`.
        """
        if here.dim() == 2:
            self.q[dims, : here.shape[1]] = size * here
        else:
            self.q[dims, here] = size
        self.k[dims, there] = size

    def copy(self, what: Tensor, size: float) -> None:
        """Copy token dimensions from there to here, as far as the rows of `what` span them."""
        self.v.zero_()
        self.o.zero_()
        self.v[: len(what), :_TOKEN] = what
        self.o[:_TOKEN, : len(what)] = size * what.T


@torch.no_grad()
def structured_start(model: Lille, space: int, marks: Sequence[int], seed: int = 0) -> None:
    """Draw the starting weights: random, with the heads of the tables above laid in.

    Parameters
    ----------
    model
        Its weights are set in place; it has the shape of `lille`.
    space
        The token that stands before a word which is no token of its own.
    marks
        Tokens that stand before an item of a list.
    seed
        Of the random numbers.

    Raises
    ------
    ValueError
        If the model has another shape.
    """
    shape = model.shape
    if (shape.hidden, shape.heads, shape.head, shape.layers) != (256, 4, 64, 4):
        raise ValueError(
            "The structured start is laid out for 4 layers, hidden 256 and 4 heads of 64."
        )
    rng = torch.Generator().manual_seed(seed)
    half = shape.head // 2

    def orthonormal(rows: int, columns: int) -> Tensor:
        return torch.linalg.qr(torch.randn(columns, rows, generator=rng))[0].T

    def band(begin: int, end: int, strength: float) -> Tensor:
        strengths = torch.zeros(half)
        strengths[begin:end] = strength
        return strengths

    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter) if name.endswith("bias") else nn.init.ones_(parameter)
            continue
        writes = "o_proj" in name or "down_proj" in name
        scale = (0.03 if writes else 1.0) / math.sqrt(parameter.shape[1])
        nn.init.normal_(parameter, std=scale, generator=rng)
    embedding = model.embed_tokens.weight
    nn.init.normal_(embedding, std=0.08, generator=rng)
    embedding[:, _TOKEN:] *= 0.05

    # Matching is done on slow pairs, which hardly turn between here and a far position: all of
    # them for one token, or the first half for one and the second half for another.
    slow = torch.tensor([i for i in range(shape.head) if i % half >= _SLOW_FROM])
    bag = torch.tensor([i for i in range(shape.head) if i % half >= _BAG_FROM])
    order = torch.randperm(len(slow), generator=rng)
    (first, second), (first_of, second_of) = slow[order].chunk(2), order.chunk(2)
    # The residual dimensions of each: "previous" in the order of `slow`, and so on.
    counts = [_TOKEN, len(slow), len(second), len(bag), len(bag)]
    assert sum(counts) <= shape.hidden
    _, previous, before, near, far = torch.arange(sum(counts)).split(counts)

    code = orthonormal(shape.head, _TOKEN)
    copied = orthonormal(_TOKEN, _TOKEN)
    gain = 0.08 / math.sqrt(2)
    match = math.sqrt(1.6)
    sharp = band(0, 6, 6.5) + band(6, 14, 3.5)
    soft = band(2, 14, 3.7)

    # First layer: what stands before.
    for number, (back, strength, dims, there, size) in enumerate(
        [
            (1, sharp, slow, previous, gain),
            (2, sharp, second, before, gain),
            (7, soft, bag, near, 2.2 * gain),
            (12, band(3, 14, 3.3), bag, far, 2.2 * gain),
        ]
    ):
        head = _Head(model, 0, number)
        head.look(back, strength)
        head.quiet()
        head.copy(code, 0.0)
        head.o[there, dims] = size

    # Second layer: induction, by one token and by two, copies the token there, half of it each.
    for number, what in enumerate(copied.chunk(2)):
        head = _Head(model, 1, number)
        head.quiet()
        head.q[slow], head.k[slow] = 0, 0
        if number == 0:
            head.compare(slow, code[slow], previous, match)
        else:
            head.compare(first, code[first], previous[first_of], match)
            head.compare(second, previous[second_of], before, match)
        head.copy(what, 0.25)
    # The beginning of the word before, known by the space before it.
    head = _Head(model, 1, 2)
    head.look(12, soft)
    head.quiet()
    head.copy(code, 0.25)
    head.k[slow, previous] = match
    head.q_bias[slow] = match * (code[slow] @ (embedding[space, :_TOKEN] / gain))
    # The value of the same key before this one, brought behind the first token of this one: what
    # stands behind a space in similar surroundings and is not that token.
    head = _Head(model, 1, 3)
    head.quiet()
    head.q[bag, near] = head.q[bag, far] = head.k[bag, near] = 1.2
    head.k[slow, previous] += 1.3
    head.q_bias[slow] = 1.3 * (code[slow] @ (embedding[space, :_TOKEN] / gain))
    head.q[slow, previous] += 1.3
    head.k[slow, :_TOKEN] -= 1.3 * code[slow]
    head.copy(code, 0.25)

    # Later layers: attend to a similar bag. The end of a prompt asks with "far" as well.
    for layer in range(2, shape.layers):
        attention = model.layers[layer].self_attn
        turned = orthonormal(shape.hidden, shape.hidden)
        attention.v_proj.weight.copy_(turned)
        attention.o_proj.weight.copy_(0.02 * turned.T)
        for number, asked in enumerate((near, far)):
            head = _Head(model, layer, number)
            head.q[bag] *= 0.1
            head.k[bag] *= 0.1
            head.compare(bag, asked, near, 0.9)

    # Third layer: counting (look everywhere alike), and, where the same two tokens stand before
    # (but not here itself), the beginning of the word before, which was brought there.
    head = _Head(model, 2, 2)
    head.quiet()
    head.copy(code, 0.25)
    head = _Head(model, 2, 3)
    head.look(0, band(1, 9, 2.5))
    head.q_bias *= -1
    head.quiet()
    head.q[slow], head.k[slow] = 0, 0
    head.compare(first, previous[first_of], previous[first_of], 3 * match)
    head.compare(second, before, before, 3 * match)
    head.copy(code, 0.25)

    # Last layer: what was found so is said now: at the comma before, for a chain, or three tokens
    # before, behind the first token of a number.
    for number, back in ((0, 3), (2, 1)):
        head = _Head(model, 3, number)
        head.look(back, sharp)
        head.quiet()
        head.copy(code, 0.25)
    # What was said already is not said again. An item is known by the mark two tokens before; its
    # first token is read where it is the previous one, since where it stands itself the residual
    # stream holds what comes next.
    head = _Head(model, 3, 3)
    head.look(16, band(5, _SLOW_FROM, 3.3))
    head.quiet()
    head.k[second, before] = 1.5
    head.k[second, previous[second_of]] = -1.5
    head.q_bias[second] = 1.5 * (code[second] @ (embedding[list(marks), :_TOKEN].sum(0) / gain))
    head.v.zero_()
    head.o.zero_()
    head.v[slow, previous] = 1
    head.o[:_TOKEN, slow] = -code[slow].T


# Tokens that a reading is learned from, and how strictly its size is bounded.
_READ = 40_000
_RIDGE = 1e-4
_BEGINNINGS = 300


@torch.no_grad()
def grow(
    model: Lille, weights: Mapping[str, Tensor], new: Sequence[int], batches: Iterable[np.ndarray]
) -> None:
    """Set a model's weights to those of a shallower one, with layers that write nothing added.

    Parameters
    ----------
    model
        Its weights are set in place.
    weights
        Those of the shallower model, by the names of `Lille`.
    new
        Places of the new layers in the deeper model, from 0. The first of them counts copies.
    batches
        (rows, length) token ids each, as in training: from them is learned how the stream of
        the shallower model says which tokens stand here and before.

    Raises
    ------
    ValueError
        If the layers of the weights and the new ones are not those of the model.
    """
    old = [place for place in range(model.shape.layers) if place not in new]
    depth = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("layers."))
    if len(old) != depth:
        raise ValueError(
            f"{depth} layers and new ones at {list(new)} do not make {model.shape.layers}."
        )
    state = model.state_dict()
    for name, each in weights.items():
        if name.startswith("layers."):
            _, number, rest = name.split(".", 2)
            name = f"layers.{old[int(number)]}.{rest}"
        state[name] = each
    rng = torch.Generator().manual_seed(0)
    for place in new:
        for name in [name for name in state if name.startswith(f"layers.{place}.")]:
            if "layernorm" in name:
                state[name] = torch.ones_like(state[name])
            elif state[name].dim() < 2 or "o_proj" in name or "down_proj" in name:
                state[name] = torch.zeros_like(state[name])
            else:
                scale = 1 / math.sqrt(state[name].shape[1])
                state[name] = torch.randn(state[name].shape, generator=rng) * scale
    model.load_state_dict(state)
    _count_copies(model, new[0], batches)


def _count_copies(model: Lille, layer: int, batches: Iterable[np.ndarray]) -> None:
    """Let three heads of a new layer look for copies of what stands here, and for the beginning."""
    half = model.shape.head // 2
    slow = torch.tensor([i for i in range(model.shape.head) if i % half >= _SLOW_FROM])
    rng = torch.Generator().manual_seed(1)
    # What a token is called here: random, so that two of them are hardly ever alike.
    names = torch.randn(model.shape.vocabulary, len(slow), generator=rng)
    names /= names.norm(dim=1, keepdim=True)
    streams, wanted = [], []
    left = _READ
    for tokens in batches:
        ids = torch.from_numpy(tokens)
        x = model.embed_tokens(ids)
        cos, sin = model.positions(torch.arange(ids.shape[1]).expand(ids.shape))
        for block in model.layers[:layer]:
            x = block(x, cos, sin)
        x = model.layers[layer].input_layernorm(x)
        here = [names[ids.roll(back, 1)] for back in range(3)]
        beginning = torch.zeros(*ids.shape, 1)
        beginning[:, 0] = 1
        streams.append(x.flatten(0, 1))
        wanted.append(torch.cat([*here, beginning], 2).flatten(0, 1))
        left -= ids.numel()
        if left < 0:
            break
    read, say = torch.cat(streams), torch.cat(wanted)
    # One place of a row is its beginning, and must be told from all others.
    weighted = read * (1 + _BEGINNINGS * say[:, -1:])
    gram = weighted.T @ read
    gram += _RIDGE * gram.trace() / len(gram) * torch.eye(len(gram))
    reading = torch.linalg.solve(gram, weighted.T @ say).T
    parts = reading[:-1].reshape(3, len(slow), -1)
    beginning = reading[-1]
    # The logits of the beginning and of a copy, which is not read as well.
    logit, copy = 9.0, 12.0
    for number, backs in enumerate(([0], [0, 1], [0, 1, 2])):
        head = _Head(model, layer, number)
        head.quiet()
        head.q[slow], head.k[slow] = 0, 0
        # One slow dimension is for the beginning, the others are dealt out.
        last, dims = slow[-1], slow[:-1].tensor_split(len(backs))
        size = math.sqrt(logit * math.sqrt(model.shape.head))
        for back, those in zip(backs, dims, strict=True):
            rows = torch.arange(len(those))
            # len(those) of the dimensions of a name hold that share of its length.
            scale = size * math.sqrt(copy / logit * len(slow) / len(those) / len(backs))
            head.q[those] = head.k[those] = scale * parts[back][rows]
        head.q_bias[last], head.k[last] = size, size * beginning
        # What is brought is nothing but how much of the attention went to the beginning.
        head.v.normal_(std=0.02, generator=rng)
        head.v[0] = beginning
