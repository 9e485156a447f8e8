"""Where a cell's questions, answers and settings stand on disk, and how they are written.

`rulerlib.store.cell` knows which folder, `rulerlib.store.questions` and `rulerlib.store.answers`
what stands in it and how a killed run resumes; `rulerlib.files` writes each of these whole or not
at all, and keeps two processes out of each other's way.
"""
