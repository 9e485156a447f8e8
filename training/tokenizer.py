"""The tokenizer of `lille`: byte-level BPE with 4,096 tokens, built from words and templates.

Most of the vocabulary is decided here rather than learned, because the benchmark asks
for numbers and uuids: digits come in groups of up to three, the hex digits of a uuid in
aligned pairs, capital letters in pairs, and every line break is a token of its own, so
that the same value is the same tokens wherever it stands. The rest are ordinary merges.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing

from rulerlib import languages
from tools.documents.encyclopedia import ONE_HOP, REGION, TWO_HOPS, World
from training import prose

PAD, BOS, EOS, USER, ASSISTANT = range(5)
# What a space is called in the vocabulary of a byte-level tokenizer.
SPACE = "Ġ"
# What stands before an item of a list.
MARKS = (SPACE, ",", ":", ".")
SPECIAL = ("<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>")

# An answer prefix is the beginning of the assistant's turn; only a finished turn gets eos.
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "<|assistant|>{{ message['content'] }}"
    "{% if not (loop.last and continue_final_message | default(false)) %}{{ eos_token }}{% endif %}"
    "{% else %}<|user|>{{ message['content'] }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

# The seed of a fictional world that nobody is asked about.
_WORLD = 2

_HEX = "[0-9a-f]"
# The three branches that start with _HEX see, from the hyphens around it, where in a uuid
# a pair stands, so that pairs are aligned whatever stands before and after the uuid.
_PATTERN = "|".join(
    [
        f"{_HEX}{{2}}(?={_HEX}{{0,6}}-{_HEX}{{4}}-)",
        f"{_HEX}{{2}}(?={_HEX}{{0,2}}-{_HEX}{{12}})",
        "(?<="
        + "|".join([f"-{_HEX}{{4}}-"] + [f"-{_HEX}{{4}}-{_HEX}{{{n}}}" for n in (2, 4, 6, 8, 10)])
        + f"){_HEX}{{2}}(?={_HEX}{{0,10}}(?![0-9a-z]))",
        # A space before a uuid stays by itself, also where the uuid begins with a letter.
        f" (?={_HEX}{{8}}-{_HEX}{{4}}-)",
        r" ?\p{Lu}?\p{Ll}+",
        r"\p{Lu}{1,2}",
        r"\p{N}{1,3}",
        r"\n",
        r" ?[^\s\p{L}\p{N}]+",
        r"\s",
    ]
)


def _fixed_merges() -> list[tuple[str, str]]:
    digits, capitals, hexes = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789abcdef"
    merges = [(a, b) for a in digits for b in digits]
    # Whichever two of three digits come together first, the third joins them.
    merges += [(a + b, c) for a in digits for b in digits for c in digits]
    merges += [(a, b + c) for a in digits for b in digits for c in digits]
    merges += [(a, b) for a in capitals for b in capitals]
    merges += [(a, b) for a in hexes for b in hexes if not (a in digits and b in digits)]
    return merges


def _template_text(codes: Sequence[str]) -> str:
    """Return every sentence of the language packs, without what stands in braces."""

    def strings(node: object) -> list[str]:
        if isinstance(node, str):
            return [node]
        if isinstance(node, dict):
            return [text for value in node.values() for text in strings(value)]
        return []

    packs = [languages.load(code) for code in codes]
    # The sections in files of their own came after the tokenizer that ships.
    templates = [
        table for pack in packs for name, table in pack.templates.items()
        if name not in languages.SECTIONS
    ]  # fmt: skip
    text = "\n".join(re.sub(r"\{\w+\}", "", s) for table in templates for s in strings(table))
    return text


def _corpus(seed: int, codes: Sequence[str]) -> list[str]:
    rng = random.Random(f"tokenizer-{seed}")
    lines = _template_text(codes).split("\n") * 60
    for language in codes:
        lines += prose.sentences(rng, language, 12_000)
        # Words by themselves and hyphenated, as they stand in keys.
        words = prose.key_words(language)
        lines += [f" {a}-{b}" for a, b in zip(words[::2], words[1::2], strict=False)]
        world = World(language, _WORLD, 800 // REGION)
        lines += [line for entry in world.entries for line in entry.sentences]
        for path in (ONE_HOP + TWO_HOPS) * 10:
            entry = rng.choice([entry for entry in world.entries if entry.kind == path[0]])
            lines.append(world.ask(path, entry, rng))
    return [re.sub(r"[0-9]", "", line) for line in lines]


def build(seed: int = 1, vocabulary: int = 4096, codes: Sequence[str] = ("da", "en")) -> Tokenizer:
    """Return the tokenizer, trained from nothing; the same arguments give the same tokenizer.

    Parameters
    ----------
    seed
        Of the text that its merges are learned from.
    vocabulary
        The number of tokens.
    codes
        The language packs that the text is made of.
    """
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = splitter
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    learner.train_from_iterator(
        _corpus(seed, codes),
        trainers.BpeTrainer(
            vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False, min_frequency=2
        ),
    )
    learned = [tuple(merge) for merge in json.loads(learner.to_str())["model"]["merges"]]

    fixed = _fixed_merges()
    vocab = {token: i for i, token in enumerate((*SPECIAL, *alphabet))}
    missing = {a + b for a, b in fixed}
    merges: list[tuple[str, str]] = []
    for left, right in learned:
        if left + right not in vocab and left + right not in missing:
            if len(vocab) + len(missing) >= vocabulary:
                break
            vocab[left + right] = len(vocab)
        elif left + right in missing:
            missing.discard(left + right)
            vocab[left + right] = len(vocab)
        merges.append((left, right))
    seen = set(merges)
    for left, right in fixed:
        vocab.setdefault(left + right, len(vocab))
        if (left, right) not in seen:
            merges.append((left, right))

    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tokenizer.post_processor = TemplateProcessing(
        single=f"{SPECIAL[BOS]} $A", special_tokens=[(SPECIAL[BOS], BOS)]
    )
    return tokenizer


def save_pretrained(tokenizer: Tokenizer, folder: str | Path, max_length: int) -> None:
    """Write tokenizer.json and tokenizer_config.json as transformers reads them.

    Parameters
    ----------
    max_length
        The longest context, in tokens.
    """
    from transformers import PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=SPECIAL[BOS],
        eos_token=SPECIAL[EOS],
        pad_token=SPECIAL[PAD],
        clean_up_tokenization_spaces=False,
        model_max_length=max_length,
        padding_side="left",
    )
    wrapped.chat_template = CHAT_TEMPLATE
    wrapped.save_pretrained(folder)
    # transformers 5 puts the chat template in a file of its own unless it stands in the config.
    separate = Path(folder) / "chat_template.jinja"
    config_path = Path(folder) / "tokenizer_config.json"
    config = json.loads(config_path.read_text(encoding="utf-8"))
    config["chat_template"] = CHAT_TEMPLATE
    # Both major versions of transformers know this class name.
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config_path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
    separate.unlink(missing_ok=True)
