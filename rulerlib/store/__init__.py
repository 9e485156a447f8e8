"""Where a cell's questions, answers and settings stand on disk, and how they are written.

`rulerlib.store.cell` knows which folder, `rulerlib.store.questions` and `rulerlib.store.answers`
what stands in it and how a killed run resumes, and `rulerlib.store.files` how a file appears
whole or not at all, and how two processes keep out of each other's way.
"""
