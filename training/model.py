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

The second layer copies by induction (attend to where the previous token was this one),
and two heads of each later layer attend to positions with a similar bag. What is left of the
third layer and the last one is laid out for lists:

==============  ================================================================
layer, head     what it does at the start
==============  ================================================================
third, 2        looks everywhere alike and copies tokens: it counts
third, 3        looks for the space before a word, some 10 tokens back: where the
                word before the current one begins
last, 3         looks some 14 tokens back and takes away from the logits of what
                stands there: what was said just now is not said again
==============  ================================================================
"""

from __future__ import annotations

import math
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
        """Radians per token of each pair of dimensions of a head, fastest first."""
        return self.theta ** (-torch.arange(0, self.head, 2).float() / self.head)

    def llama(self, longest: int) -> dict[str, Any]:
        """The same shape as arguments of transformers' LlamaConfig."""
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
    """Causal attention, block by block of queries, each with the keys up to its end.

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
        """Cosines and sines for (row, place) position numbers, broadcast over heads."""
        angles = positions.float()[..., None] * self.shape.frequencies().to(positions.device)
        angles = torch.cat([angles, angles], -1)[:, None]
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def hidden(self, tokens: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The last hidden state at every place."""
        x = self.embed_tokens(tokens)
        for block in self.layers:
            x = block(x, cos, sin)
        return self.norm(x)

    def logits(self, hidden: Tensor, places: Tensor) -> Tensor:
        """Logits at some places of the flattened batch only."""
        chosen = hidden.reshape(-1, self.shape.hidden)[places].to(self.dtype)
        return functional.linear(chosen, self.embed_tokens.weight.to(self.dtype)).float()


# Residual dimensions at the start, see the table at the top. 17 of the 20 slow pairs of
# dimensions carry a bag, all 20 the previous token, every second one the token before.
_TOKEN = 128
_SLOW_FROM = 12
_BAG_FROM = 15


@torch.no_grad()
def structured_start(model: Lille, space: int, seed: int = 0) -> None:
    """Draw the starting weights: random, with the heads of the tables above laid in.

    Parameters
    ----------
    space
        The token that stands before a word which is no token of its own.
    """
    shape = model.shape
    if (shape.hidden, shape.heads, shape.head) != (256, 4, 64) or shape.layers < 2:
        raise ValueError("The structured start is laid out for hidden 256 and 4 heads of 64.")
    rng = torch.Generator().manual_seed(seed)
    head, half = shape.head, shape.head // 2

    def orthonormal(rows: int, columns: int) -> Tensor:
        return torch.linalg.qr(torch.randn(columns, rows, generator=rng))[0].T

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

    # Matching is done on slow pairs, which hardly turn between here and a far position.
    slow = torch.tensor([i for i in range(head) if i % half >= _SLOW_FROM])
    bag = torch.tensor([i for i in range(head) if i % half >= _BAG_FROM])
    shuffled = slow[torch.randperm(len(slow), generator=rng)]
    first, second = shuffled.chunk(2)
    place = {int(dim): i for i, dim in enumerate(slow)}
    previous_at = _TOKEN
    second_at = previous_at + len(slow)
    near_at = second_at + len(second)
    far_at = near_at + len(bag)
    assert far_at + len(bag) <= shape.hidden

    code = orthonormal(head, _TOKEN)
    frequencies = shape.frequencies()

    # First layer: biases of query and key alone make each head look a fixed way back.
    attention = model.layers[0].self_attn
    sharp, soft, softer = torch.zeros(half), torch.zeros(half), torch.zeros(half)
    sharp[:6], sharp[6:14] = 6.5, 3.5
    soft[2:14] = 3.7
    softer[3:14] = 3.3
    gain = 0.08 / math.sqrt(2)
    looks = [
        (1, sharp, slow, previous_at, gain),
        (2, sharp, second, second_at, gain),
        (7, soft, bag, near_at, 2.2 * gain),
        (12, softer, bag, far_at, 2.2 * gain),
    ]
    for h, (back, strength, dims, at, size) in enumerate(looks):
        own = slice(h * head, (h + 1) * head)
        turn = -back * frequencies
        attention.k_proj.bias[own] = torch.cat([strength, torch.zeros(half)])
        attention.q_proj.bias[own] = torch.cat([strength * turn.cos(), strength * turn.sin()])
        attention.q_proj.weight[own] *= 0.1
        attention.k_proj.weight[own] *= 0.1
        attention.v_proj.weight[own] = 0
        attention.v_proj.weight[own, :_TOKEN] = code
        attention.o_proj.weight[:, own] = 0
        for i, dim in enumerate(dims):
            attention.o_proj.weight[at + i, h * head + int(dim)] = size

    # Second layer: attend to where "previous" is this token, and copy the token there.
    attention = model.layers[1].self_attn
    match = math.sqrt(1.6)
    copied = orthonormal(_TOKEN, _TOKEN)
    q, k = attention.q_proj.weight, attention.k_proj.weight
    v, o = attention.v_proj.weight, attention.o_proj.weight
    for h in range(4):
        at = h * head
        q[at : at + head] *= 0.1
        k[at : at + head] *= 0.1
        # Two heads match one token with all their dimensions, two match two tokens.
        for dim in map(int, slow if h < 2 else first):
            q[at + dim] = 0
            q[at + dim, :_TOKEN] = match * code[dim]
            k[at + dim] = 0
            k[at + dim, previous_at + place[dim]] = match
        if h >= 2:
            for i, dim in enumerate(map(int, second)):
                q[at + dim] = 0
                q[at + dim, previous_at + place[dim]] = match
                k[at + dim] = 0
                k[at + dim, second_at + i] = match
        part = copied[h * 32 : (h + 1) * 32]
        v[at : at + 32] = 0
        v[at : at + 32, :_TOKEN] = part
        o[:, at : at + 32] = 0
        o[:_TOKEN, at : at + 32] = 0.25 * part.T

    # Later layers: attend to a similar bag. The end of a prompt asks with "far" as well.
    for block in model.layers[2:]:
        attention = block.self_attn
        turned = orthonormal(shape.hidden, shape.hidden)
        attention.v_proj.weight.copy_(turned)
        attention.o_proj.weight.copy_(0.02 * turned.T)
        for h, asked_at in enumerate((near_at, far_at)):
            for i, dim in enumerate(map(int, bag)):
                row = h * head + dim
                attention.q_proj.weight[row] *= 0.1
                attention.k_proj.weight[row] *= 0.1
                attention.q_proj.weight[row, asked_at + i] = 0.9
                attention.k_proj.weight[row, near_at + i] = 0.9

    def lay(layer: int, h: int, gain: float) -> Any:
        """A head that copies token dimensions by `gain` from wherever it looks."""
        attention = model.layers[layer].self_attn
        own = slice(h * head, (h + 1) * head)
        attention.q_proj.weight[own] *= 0.1
        attention.k_proj.weight[own] *= 0.1
        attention.v_proj.weight[own] = 0
        attention.v_proj.weight[own, :_TOKEN] = code
        attention.o_proj.weight[:, own] = 0
        attention.o_proj.weight[:_TOKEN, own] = gain * code.T
        return attention, own

    if shape.layers < 4:
        return
    # Third layer: counting (look everywhere alike), and the beginning of the word before.
    lay(2, 2, 0.25)
    attention, own = lay(2, 3, 0.25)
    turn = -10 * frequencies
    attention.k_proj.bias[own] = torch.cat([soft, torch.zeros(half)])
    attention.q_proj.bias[own] = torch.cat([soft * turn.cos(), soft * turn.sin()])
    before_a_word = embedding[space, :_TOKEN] / gain
    for dim in map(int, slow):
        row = 3 * head + dim
        attention.k_proj.weight[row, previous_at + place[dim]] = match
        attention.q_proj.bias[row] = match * (code[dim] @ before_a_word)
    # Last layer: what was said just now is not said again.
    attention, own = lay(3, 3, -0.25)
    turn = -14 * frequencies
    attention.k_proj.bias[own] = torch.cat([softer, torch.zeros(half)])
    attention.q_proj.bias[own] = torch.cat([softer * turn.cos(), softer * turn.sin()])
