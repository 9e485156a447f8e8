"""The Llama that is trained.

This is an ordinary Llama, written out so that torch.compile sees one plain function and
so that the logits are computed only where an answer stands. Parameter names are those of
`transformers`, less the leading ``model.``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """The size of a model; the defaults are those of `lille`.

    Attributes
    ----------
    vocabulary
        The number of tokens that it knows.
    hidden
        Dimensions of the residual stream.
    layers, heads
        The number of layers, and of heads in each.
    head
        Dimensions of a head.
    inner
        Dimensions within a feedforward network.
    theta
        The base of the rotary positions.
    epsilon
        What a norm adds to the mean square.
    """

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
        """Return the fields by name."""
        return asdict(self)


class Norm(nn.Module):
    """The norm of Llama, RMSNorm (Zhang and Sennrich 2019)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.hidden))
        self.epsilon = shape.epsilon

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return queries or keys turned by their positions, (rows, heads, length, head).

    These are rotary positions (Su and others, 2021) in Llama's layout: the first half of a head's
    dimensions is paired with the second half.
    """
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def attend_by_blocks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return causal attention, (rows, heads, length, head), by blocks of queries.

    Each block meets the keys up to its own end.

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
    """Causal attention with rotary positions."""

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
    """The feedforward network of Llama, SwiGLU (Shazeer 2020)."""

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
    """A layer: attention and feedforward network, each with a norm before it."""

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
        """Return cosines and sines of (rows, length) position numbers: (rows, 1, length, head)."""
        angles = positions.float()[..., None] * self.shape.frequencies().to(positions.device)
        angles = torch.cat([angles, angles], -1)[:, None]
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def hidden(self, tokens: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the last hidden state at every place, (rows, length, hidden)."""
        x = self.embed_tokens(tokens)
        for block in self.layers:
            x = block(x, cos, sin)
        return self.norm(x)

    def logits(self, hidden: Tensor, places: Tensor) -> Tensor:
        """Return the logits at some places of the flattened batch, (places, vocabulary)."""
        chosen = hidden.reshape(-1, self.shape.hidden)[places].to(self.dtype)
        return functional.linear(chosen, self.embed_tokens.weight.to(self.dtype)).float()
