"""Exports: questions as JSON lines, as Parquet and as tasks for other harnesses.

``rulerlib export`` writes files (`rulerlib.export.formats`). inspect_ai asks the same questions
without files (`rulerlib.export.inspect_ai`).
"""
