"""Write fictional documents with questions, in the formats of SQuAD, HotpotQA and DROP.

    python -m tools.documents squad --language da --seed 1 > squad.json

The files in ``rulerlib/languages`` were written this way. A published file can end up in training
data; a new seed gives a file with other names, dates and numbers (book/tasks.md).
"""
