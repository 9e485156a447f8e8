"""The Llama that is trained, and the structure that it starts from.

This is an ordinary Llama, written out so that torch.compile sees one plain function and
so that the logits are computed only where an answer stands. Parameter names are those of
`transformers`, less the leading ``model.``.

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
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """The size of a model; the defaults are those of `lille`."""

    vocabulary: int = 4096
    hidden: int = 256
    layers: int = 4
    heads: int = 4
    head: int = 64
    inner: int = 512
    theta: float = 1e10
    epsilon: float = 1e-5

    def frequencies(self) -> Tensor:
        """Return the radians per token of each pair of dimensions of a head, fastest first."""
        return self.theta ** (-torch.arange(0, self.head, 2).float() / self.head)

    def llama(self, longest: int) -> dict[str, Any]:
        """Return the same shape as arguments of transformers' LlamaConfig."""
        return {
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
            "head_dim": self.head,
            "hidden_act": "silu",
            "max_position_embeddings": longest,
            "rms_norm_eps": self.epsilon,
            "tie_word_embeddings": True,
            "attention_bias": True,
            "mlp_bias": False,
        }

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Norm(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.hidden))
        self.epsilon = shape.epsilon

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, in Llama's layout (first half paired with second half)."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def attend_by_blocks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return causal attention, by blocks of queries, each with the keys up to its end.

    On a processor, forward and backward together take about half as long as torch's own kernel
    once they are compiled: matrix products in bfloat16, and nothing computed of what lies ahead.

    Parameters
    ----------
    q, k, v
        (rows, heads, length, head).
    """
    length, q = q.shape[2], q * q.shape[3] ** -0.5
    size = min(256, -(-length // 2))
    places = torch.arange(length)
    parts = []
    for begin in range(0, length, size):
        end = min(begin + size, length)
        scores = (q[:, :, begin:end] @ k[:, :, :end].transpose(2, 3)).float()
        ahead = places[:end] > places[begin:end, None]
        weights = scores.masked_fill(ahead, -torch.inf).softmax(-1)
        parts.append(weights.to(v.dtype) @ v[:, :, :end])
    return torch.cat(parts, 2)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width = shape.heads * shape.head
        self.q_proj = nn.Linear(shape.hidden, width)
        self.k_proj = nn.Linear(shape.hidden, width)
        self.v_proj = nn.Linear(shape.hidden, width)
        self.o_proj = nn.Linear(width, shape.hidden)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        rows, length, _ = x.shape
        projections = (self.q_proj, self.k_proj, self.v_proj)
        # One wide product instead of three narrow ones.
        weight = torch.cat([p.weight for p in projections]).to(x.dtype)
        bias = torch.cat([p.bias for p in projections]).to(x.dtype)
        qkv = functional.linear(x, weight, bias).view(
            rows, length, 3, self.shape.heads, self.shape.head
        )
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if x.device.type == "cpu" and torch.compiler.is_compiling():
            out = attend_by_blocks(q.contiguous(), k.contiguous(), v.contiguous())
        else:
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = out.transpose(1, 2).reshape(rows, length, -1)
        return functional.linear(out, self.o_proj.weight.to(x.dtype), self.o_proj.bias.to(x.dtype))


class Feedforward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        both = torch.cat([self.gate_proj.weight, self.up_proj.weight]).to(x.dtype)
        gate, up = functional.linear(x, both).chunk(2, -1)
        return functional.linear(functional.silu(gate) * up, self.down_proj.weight.to(x.dtype))


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape)
        self.mlp = Feedforward(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        # The residual stream stays in float32; only what the layers compute is cos.dtype.
        x = x + self.self_attn(self.input_layernorm(x).to(cos.dtype), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x).to(cos.dtype))


class Lille(nn.Module):
    """The model in training form.

    Parameters
    ----------
    shape
        Its size.
    dtype
        What the layers compute in; weights and residual stream are float32.
    """

    def __init__(self, shape: Shape, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.shape, self.dtype = shape, dtype
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape)

    def positions(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of (row, place) position numbers, broadcast over heads."""
        angles = positions.float()[..., None] * self.shape.frequencies().to(positions.device)
        angles = torch.cat([angles, angles], -1)[:, None]
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def hidden(self, tokens: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the last hidden state at every place."""
        x = self.embed_tokens(tokens)
        for block in self.layers:
            x = block(x, cos, sin)
        return self.norm(x)

    def logits(self, hidden: Tensor, places: Tensor) -> Tensor:
        """Return the logits at some places of the flattened batch."""
        chosen = hidden.reshape(-1, self.shape.hidden)[places].to(self.dtype)
        return functional.linear(chosen, self.embed_tokens.weight.to(self.dtype)).float()


# Dimensions at the start, see the table at the top. 17 of the 20 slow pairs of dimensions of a
# head carry a bag, all 20 the previous token, every second one the token before.
_TOKEN = 128
_SLOW_FROM = 12
_BAG_FROM = 15


class _Head:
    """One head, to lay something into it: its part of the weights, and what it then looks for.

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
    space
        The token that stands before a word which is no token of its own.
    marks
        Tokens that stand before an item of a list.
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
