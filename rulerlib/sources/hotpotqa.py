"""How HotpotQA is read, as released and as rows of the hub (Yang et al. 2018).

As released, documents are pairs of a title and its sentences::

    {"question": "Where was the founder of Acme born?", "answer": "Ribe",
     "supporting_facts": [["Acme", 0], ["Wile", 1]],
     "context": [["Wile", ["Wile made traps.", " He was born in Ribe."]],
                 ["Acme", ["Acme was founded by Wile."]]]}

On the hub, the same stand in columns: ``"context": {"title": [...], "sentences": [...]}`` and
``"supporting_facts": {"title": [...], "sent_id": [...]}``.

A document is its title and, below it, its sentences. A question whose supporting documents are
not all there is left out. Related documents are the others of its row.
"""

from __future__ import annotations

from collections.abc import Mapping

from rulerlib.sources.rows import Collection, Row, Schema, items, text


def _read_row(row: Row, collection: Collection) -> None:
    context, facts = row["context"], row["supporting_facts"]
    if isinstance(context, Mapping):
        pairs = list(zip(context["title"], context["sentences"], strict=True))
        supporting = items(facts["title"], "supporting_facts")
    else:
        pairs = [(title, sentences) for title, sentences in context]
        supporting = [title for title, _ in items(facts, "supporting_facts")]
    numbers: dict[str, int] = {}
    for title, sentences in pairs:
        title = text(title, "title")
        content = text("".join(items(sentences, "sentences")), "sentences")
        if title or content:
            numbers[title] = collection.document(f"{title}\n{content}".strip())
    titles = dict.fromkeys(text(title, "supporting_facts") for title in supporting)
    if titles and all(title in numbers for title in titles):
        targets = [numbers[title] for title in titles]
        collection.ask(row["question"], [row["answer"]], targets, numbers.values())


SCHEMAS = (
    Schema(recognizes=lambda row: isinstance(row.get("context"), (list, Mapping)), read=_read_row),
)
