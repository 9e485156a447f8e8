"""The transformers engine with weights of 8 bits, for `rulerlib compare`.

    PYTHONPATH=benchmarks rulerlib compare model=smollm2,language=en,dtype=float32 \\
        model=smollm2,language=en,engine=int8:Engine,dtype=float32
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from rulerlib.models import transformers


class Engine(transformers.Engine):
    """Quantizes every linear layer, a scale a layer; activations anew at each step."""

    engine = "transformers, int8"

    @cached_property
    def _model(self) -> Any:
        import torch

        model = super()._model
        return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8)
