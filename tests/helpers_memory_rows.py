"""Files of metrics as runs of memories leave them, with drawn answers."""

from __future__ import annotations

import csv
import json
import random

from rulerlib.memory.measures import COLUMNS
from rulerlib.memory.presets import NAMES as PRESETS
from rulerlib.memory.suites import SUITES

SHORT = {"engine": "transformers", "format": "short", "decoding": {}, "tokens_to_generate": 8}
FREE = {**SHORT, "format": "chat", "tokens_to_generate": 32}

# How often what each preset delivers holds the facts, and how often it is then read rightly.
SKILL = {
    "core": (0, 0), "span_short": (0, 0), "random": (0.25, 0.7), "longctx": (0.6, 0.7),
    "rag": (0.8, 0.7),
    "memory/hei_nw": (0.5, 0.7), "memory/sgc_rss": (0.6, 0.7), "memory/smpd": (0.4, 0.7),
    "oracle": (1, 0.9),
}  # fmt: skip


def row(suite, preset, index, rng, *, size=50, seed=7, probes=1, taught=20, language="da"):
    """One question; chance decides whether its facts are recalled and read correctly."""
    held, read = SKILL[preset]
    able = index % 10 != 9 or suite != "episodic_cross"
    found = rng.random() < held
    right = rng.random() < (read if found else 0.05)
    way = suite == "spatial" and index % 2 == 0
    ranked = preset not in ("core", "span_short", "longctx") and able
    share = float(found) if ranked else ""
    return {
        "suite": suite, "preset": preset.rpartition("/")[2], "model": "lille", "language": language,
        "profile": "default", "size": size, "seed": seed,
        "episode": f"{suite}-{index // probes}", "probe": index % probes, "index": index,
        "kind": "who", "question": f"Who was it, {index}?", "answer": "NA" if right else "None",
        "gold": "NA", "golds": '["NA"]', "em": int(right), "em_norm": int(right),
        "em_raw": int(right and rng.random() < 0.9), "f1": 1.0 if right else 0.25,
        "f1_norm": 1.0 if right else 0.25, "pred_len": 1, "gold_len": 1,
        "overlong": int(rng.random() < 0.2), "format_violation": 0,
        "part_match": int(right), "too_long": 0, "cut_off": int(index % 4 == 0),
        "answerable": int(able), "refused": 0, "needed": int(able), "taught": taught, "recalled": 5,
        "recall_at_1": share, "recall_at_5": share, "recall_at_10": share, "rr": share,
        "recall": 1.0 if preset == "longctx" else float(found), "in_prompt": int(found and able),
        "stale": "", "leaked": 0,
        "constant": int(index % 20 == 0),
        "chance": 0.05 if able else "", "latency_ms": 1.5, "prompt_tokens": 200,
        "cut": 4 if preset == "longctx" else 0, "valid": int(way) if way else "",
        "success": int(right) if way else "", "steps_over": 1 if way and right else "",
    }  # fmt: skip


def write(folder, rows, settings):
    """One run: its table and what it says about itself."""
    folder.mkdir(parents=True)
    with (folder / "metrics.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    about = {"metrics": {}, "primary_em": "norm", "settings": settings}
    (folder / "metrics.json").write_text(json.dumps(about), encoding="utf-8")


def runs(root, presets=PRESETS, suites=tuple(SUITES), size=50, seeds=(7,), probes=1, **options):
    """Runs of presets and suites below a folder; each preset is asked the same questions."""
    for preset in presets:
        for suite in suites:
            for seed in seeds:
                rng = random.Random(f"{preset} {suite} {seed} {options}")
                rows = [
                    row(suite, preset, index, rng, size=size, seed=seed, probes=probes, **options)
                    for index in range(size * probes)
                ]
                knobs = {"facts": options["taught"]} if "taught" in options else {}
                settings = {
                    "work": {"preset": preset, "knobs": knobs, "changes": {}},
                    "cell": FREE if preset == "core" else SHORT,
                }
                name = f"{preset}-{suite}-{seed}-{size}-{options}".replace("/", "-")
                write(root / name, rows, settings)
    return root
