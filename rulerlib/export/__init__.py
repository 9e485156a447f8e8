"""What leaves the house: data as Parquet, scores as one small table, tasks for other harnesses.

>>> from rulerlib.export import lm_eval, parquet, scores
>>> parquet.write("runs/lille/da/4096/data/vt/validation.jsonl", "vt.parquet")  # doctest: +SKIP
>>> scores.write(run, "scores.csv")  # doctest: +SKIP
>>> lm_eval.write("harness", "niah", languages="da,en", lengths=[4096, 8192])  # doctest: +SKIP

From a shell ``rulerlib export`` writes for these and for other harnesses, see
`rulerlib.export.formats`.
"""
