"""The table of docs/pending.md: which cause says what, and what is to be done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from deployer.executors.reason import TRANSIENT, Passes
from deployer.findings import Finding

PAGE = Path(__file__).parents[2] / "docs" / "pending.md"
ROW = re.compile(
    r"^\| `(?P<cause>[a-z-]+)` \| (?P<said>.+?) \| (?P<passes>.+?) \| (?P<mend>.*?) ?\|$"
)


class Row(NamedTuple):
    """A line of the table; `…` in a text stands for anything."""

    cause: str
    sentence: str
    transient: bool | None
    remedy: str

    def is_of(self, found: Finding) -> bool:
        """Tell whether a finding is what this line says."""
        return (
            self.cause == found.code
            and self.transient is found.transient
            and _matches(self.sentence, found.message)
            and _matches(self.remedy, found.fix)
        )


def list_rows() -> Iterator[Row]:
    """Yield the table's lines."""
    for line in PAGE.read_text().splitlines():
        if found := ROW.match(line):
            passes = Passes(found["passes"].replace(" ", "-"))
            yield Row(found["cause"], found["said"], TRANSIENT[passes], found["mend"])


def is_listed(found: Finding) -> bool:
    """Tell whether the page has a line for a finding."""
    return any(row.is_of(found) for row in list_rows())


def _matches(pattern: str, text: str) -> bool:
    parts = ".*".join(re.escape(part) for part in pattern.split("…"))
    return re.fullmatch(parts, text, re.DOTALL) is not None
