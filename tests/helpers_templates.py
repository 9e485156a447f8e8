"""Chat templates in the manner of the common families of models."""

from __future__ import annotations

import tomllib
from pathlib import Path

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

FAMILIES = tomllib.loads(Path(__file__).with_name("templates.toml").read_text("utf-8"))
