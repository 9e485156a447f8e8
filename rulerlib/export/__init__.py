"""What leaves the house: a dataset as Parquet, and a run's scores as one small table.

>>> from rulerlib.export import parquet, scores
>>> parquet.write("runs/lille/da/4096/data/vt/validation.jsonl", "vt.parquet")  # doctest: +SKIP
>>> scores.write(run, "scores.csv")  # doctest: +SKIP
"""
