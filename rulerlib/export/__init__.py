"""Exports: questions as Parquet, scores as a CSV table, tasks for other harnesses.

>>> from rulerlib.export import parquet, scores
>>> parquet.write("runs/lille/da/4096/data/vt/validation.jsonl", "vt.parquet")  # doctest: +SKIP
>>> scores.write(run, "scores.csv")  # doctest: +SKIP

``rulerlib export`` writes tasks for other harnesses, see `rulerlib.export.formats`.
"""
