"""An engine with one method: it answers with the last numbers in the prompt.

    papermill notebooks/niah.ipynb runs/last.ipynb -p model last -p engine engine:Engine \\
        -y 'engine_options: {tokenizer: words, digits: 7}'
"""

import re
from collections.abc import Iterable, Iterator

from rulerlib.models import Request


class Engine:
    """Repeat the last ``count`` numbers of ``digits`` digits."""

    def __init__(self, digits: int = 7, count: int = 1) -> None:
        self.number, self.count = re.compile(rf"\b\d{{{digits}}}\b"), count

    def generate(self, requests: Iterable[Request]) -> Iterator[str]:
        """Yield the answer to each request, in their order."""
        for request in requests:
            yield " ".join(self.number.findall(request.prompt)[-self.count :])
