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
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
