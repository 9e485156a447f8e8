"""Vectors of a model of transformers: of real weights, those of the model inside."""

from __future__ import annotations

import numpy as np
import pytest

from rulerlib.errors import ParameterError
from rulerlib.memory.vectors import Encoder, embedding

pytest.importorskip("transformers")


def test_a_folder_that_is_no_model_gets_a_sentence(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ParameterError, match=r"embedding is .* a model that transformers can load"):
        Encoder(str(tmp_path))(["En bil."])


def test_a_model_makes_vectors():
    model = embedding("lille")
    texts = ["En bil.", "En meget længere tekst om en båd på en sø.", "", "\ud800"]
    rows = model(texts)
    assert rows.shape == (4, model.dimension)
    assert rows.dtype == np.float32
    # None depends on the others, which are longer.
    for text, row in zip(texts[:2], rows[:2], strict=True):
        np.testing.assert_allclose(model([text])[0], row, atol=1e-5)
        assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)
    assert model([]).shape == (0, model.dimension)
