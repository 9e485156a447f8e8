"""Attention in tiles, against torch's own in float32."""

from __future__ import annotations

import math

import pytest
from helpers_model import tiny_model
from hypothesis import example, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from rulerlib.models import attention  # noqa: E402
from rulerlib.models.transformers import Engine  # noqa: E402


def exact(query, key, value, scale):
    """The same by torch in float32, with the mask and the repeated heads written out."""
    query, key, value = (tensor.float() for tensor in (query, key, value))
    group = query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(group, 1) for tensor in (key, value))
    tokens = query.shape[2]
    seen = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    scores = (query @ key.transpose(2, 3) * scale).masked_fill(~seen, -math.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2)


def drawn(seed, prompts, heads, group, tokens, width, wide, size):
    """Random queries, keys and values, laid out as models do: heads after tokens."""
    random = torch.Generator().manual_seed(seed)

    def numbers(count, dimensions, times):
        made = torch.randn(prompts, tokens, count, dimensions, generator=random) * times
        return made.bfloat16().transpose(1, 2)

    return numbers(heads * group, width, size), numbers(heads, width, size), numbers(heads, wide, 1)


def apart(one, other):
    """The largest difference, as a share of the largest number."""
    return ((one.float() - other.float()).abs().max() / other.float().abs().max()).item()


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of which a short prompt has many."""
    shrink(monkeypatch)


def shrink(patch):
    for name, size in (("QUERIES", 8), ("KEYS", 32), ("STRIDE", 4)):
        patch.setattr(attention, name, size)


@settings(deadline=None, max_examples=150)
@example(seed=0, prompts=1, heads=1, group=1, tokens=1, width=4, wide=4, size=1.0)
@example(seed=1, prompts=1, heads=1, group=2, tokens=65, width=16, wide=8, size=4.0)
@given(
    seed=st.integers(0, 2**31),
    prompts=st.integers(1, 2),
    heads=st.integers(1, 3),
    group=st.integers(1, 3),
    tokens=st.integers(1, 150),
    width=st.sampled_from([1, 4, 16, 33]),
    wide=st.sampled_from([1, 16, 40]),
    size=st.sampled_from([0.0, 0.1, 1.0, 2.0, 4.0]),
)
def test_it_is_causal_attention(seed, prompts, heads, group, tokens, width, wide, size):
    asked = drawn(seed, prompts, heads, group, tokens, width, wide, size)
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        said = attention.causal(*asked, scale=width**-0.5)
    assert said.shape == (prompts, tokens, heads * group, wide)
    assert said.dtype == torch.bfloat16
    # Scores grow with the square of the size, and what is rounded of them with it.
    assert apart(said, exact(*asked, scale=width**-0.5)) < 0.015 + size**2 / 100


@pytest.mark.parametrize("size", [0.5, 2.0, 4.0])
def test_it_is_nearly_as_exact_as_the_fused_kernel(size):
    query, key, value = drawn(5, 1, 1, 1, 4400, 64, 64, size)
    right = exact(query, key, value, 0.125)
    fused = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    def error(said):
        return ((said.float() - right).norm() / right.norm()).item()

    ours, theirs = error(attention.causal(query, key, value, 0.125)), error(fused.transpose(1, 2))
    assert ours < 0.006
    assert ours < 4 * theirs


@pytest.mark.parametrize("score", [60.0, 100.0, 400.0, 20_000.0])
@pytest.mark.parametrize("at", [33, 36, 64])
def test_a_score_far_above_what_was_guessed(small_tiles, monkeypatch, score, at):
    """A key that no other is like, among those that are not asked and among those that are."""
    query, key, value = drawn(3, 1, 1, 1, 128, 16, 16, 1.0)
    query[..., 0], key[..., 0] = 1.0, 0.0
    key[0, 0, at, 0] = score
    again = []
    largest = attention._Tiles.largest
    monkeypatch.setattr(
        attention._Tiles, "largest", lambda *given: again.append(1) or largest(*given)
    )
    said = attention.causal(query, key, value, scale=1.0)
    assert said.isfinite().all()
    assert apart(said, exact(query, key, value, 1.0)) < 0.03
    assert apart(said[0, at:, 0], value[0, 0, at].expand(128 - at, 16)) < 0.01
    # Nobody asked key 33, whose exponential is too large; 36 was asked for queries that do not
    # see it, whose exponentials all vanish; all who asked 64 see it.
    assert bool(again) == {33: score > 70, 36: True, 64: False}[at]


def test_a_prompt_does_not_see_another(small_tiles):
    query, key, value = drawn(4, 3, 2, 2, 70, 16, 16, 1.0)
    together = attention.causal(query, key, value, 0.25)
    for number in range(3):
        alone = attention.causal(
            *(tensor[number : number + 1] for tensor in (query, key, value)), 0.25
        )
        assert torch.equal(together[number], alone[0])


def test_what_is_given_is_left_as_it_was(small_tiles):
    given_ = drawn(6, 1, 2, 1, 70, 16, 16, 1.0)
    before = [tensor.clone() for tensor in given_]
    attention.causal(*given_, 0.25)
    assert all(torch.equal(*pair) for pair in zip(given_, before, strict=True))


# In a model


@pytest.fixture
def calls(monkeypatch):
    """How many tokens each call of `causal` had."""
    seen = []
    causal = attention.causal

    def counted(query, *more):
        seen.append(query.shape[2])
        return causal(query, *more)

    monkeypatch.setattr(attention, "causal", counted)
    return seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tiny_model(tmp_path_factory.mktemp("models") / "base"))


def loaded(folder, dtype, tiles):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    if tiles:
        attention.use(model)
    return model


def ids(count, seed=0):
    return torch.randint(2, 500, (1, count), generator=torch.Generator().manual_seed(seed))


def test_a_model_reads_a_long_prompt_as_exactly_as_before(folder, calls):
    with torch.inference_mode():
        right, fused, tiles = (
            loaded(folder, dtype, use)(input_ids=ids(1500)).logits.float()
            for dtype, use in [
                (torch.float32, False), (torch.bfloat16, False), (torch.bfloat16, True),
            ]
        )  # fmt: skip
    assert calls == [1500, 1500]
    assert (tiles - right).norm() < 1.3 * (fused - right).norm()


@pytest.mark.parametrize(
    ("case", "tiled"),
    [("short", False), ("padded", False), ("continued", False), ("trained", False),
     ("long", True), ("two alike", True)],
)  # fmt: skip
def test_all_but_a_long_prompt_from_its_beginning_is_torchs_own(folder, calls, case, tiled):
    def read(model):
        long = ids(1500)
        if case == "short":
            return model(input_ids=ids(attention.SHORTEST - 1)).logits
        if case == "padded":
            mask = torch.ones_like(long)
            mask[:, :3] = 0
            return model(input_ids=long, attention_mask=mask).logits[:, 3:]
        if case == "continued":
            cache = transformers.DynamicCache()
            model(input_ids=ids(20), past_key_values=cache, use_cache=True)
            return model(input_ids=long, past_key_values=cache, use_cache=True).logits
        if case == "trained":
            with torch.enable_grad():
                return model(input_ids=long).logits.detach()
        if case == "two alike":
            return model(input_ids=long.expand(2, -1)).logits
        return model(input_ids=long).logits

    with torch.no_grad():
        one, other = (read(loaded(folder, torch.bfloat16, use)) for use in (False, True))
    assert bool(calls) == tiled
    assert torch.equal(one, other) or tiled


@pytest.mark.parametrize("kind", ["MistralConfig", "Gemma2Config", "GPT2Config", "BloomConfig"])
def test_other_kinds_of_attention_stay_theirs(calls, kind):
    """A sliding window, a soft cap, another kind of positions: not one number changes."""
    sizes = {
        "vocab_size": 500, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "sliding_window": 256,
        "max_position_embeddings": 2048, "n_positions": 2048, "n_embd": 32, "n_layer": 2,
        "n_head": 2,
    }  # fmt: skip
    names = {"GPT2Config": ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head"),
             "BloomConfig": ("vocab_size", "hidden_size", "n_layer", "n_head")}  # fmt: skip
    kept = {name: sizes[name] for name in names.get(kind, sizes) if not name.startswith("n_")
            or kind in names}  # fmt: skip
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**kept))
    model = model.to(torch.bfloat16).eval()
    with torch.inference_mode():
        before = model(input_ids=ids(1500)).logits
        attention.use(model)
        after = model(input_ids=ids(1500)).logits
    if calls:
        # Plain causal attention by another name.
        assert kind == "GPT2Config"
        assert apart(after, before) < 0.05
    else:
        assert torch.equal(before, after)


def test_an_attention_that_was_chosen_stays(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    attention.use(model)
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    ("device", "dtype", "avx", "amx", "served"),
    [
        ("cpu", "bfloat16", True, False, True),
        ("cpu", "bfloat16", True, True, False),
        ("cpu", "bfloat16", False, False, False),
        ("cpu", "float32", True, False, False),
        ("cuda", "bfloat16", True, False, False),
    ],
)
def test_only_where_it_is_faster(monkeypatch, device, dtype, avx, amx, served):
    for probe, has in (("_is_avx512_bf16_supported", avx), ("_is_amx_tile_supported", amx)):
        monkeypatch.setattr(torch.cpu, probe, lambda has=has: has, raising=False)
    assert attention.serves(device, dtype) is served


def test_the_engine_uses_it_where_it_serves(folder, calls, monkeypatch):
    from rulerlib.models import Request, in_order

    text = "Æblerne er røde, og solen skinner over haven. " * 60
    requests = [Request(text, True, 8), Request("Hvad er tallet?", True, 8)]
    answers = {}
    for served in (True, False):
        monkeypatch.setattr(attention, "serves", lambda *_, served=served: served)
        engine = Engine(folder, dtype="bfloat16", device="cpu")
        answers[served] = [in_order(engine, [request])[0] for request in requests]
        assert bool(calls) == served
        calls.clear()
    assert answers[True][1].text == answers[False][1].text
    assert answers[True][0].prompt_tokens == answers[False][0].prompt_tokens > attention.SHORTEST
