"""The files beside this one: whose words they hold, from where, of which version and date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
LIFE_DAYS = 183  # then somebody looks again whether the outside has moved
FACT = re.compile(r"^(?:# )?(source|version|date): '?(.+?)'?$", re.MULTILINE)


@dataclass(frozen=True)
class Outside:
    """A file and what it says of itself."""

    path: Path
    source: str
    version: str
    date: date

    @property
    def name(self) -> str:
        """Where it lies, below this folder."""
        return str(self.path.relative_to(FOLDER))

    def is_old(self, today: date) -> bool:
        """Return True if nobody has compared it with its source for half a year."""
        return (today - self.date).days > LIFE_DAYS


def list_files() -> Iterator[Outside]:
    """Yield every file; raises KeyError where one does not say what it is."""
    for path in sorted(FOLDER.rglob("*.yaml")):
        facts = dict(FACT.findall(path.read_text()))
        day = date.fromisoformat(facts["date"])
        yield Outside(path, facts["source"], facts["version"], day)


def load(name: str) -> Any:
    """Return the content of a file of `clusters`."""
    return yaml.safe_load((FOLDER / "clusters" / f"{name}.yaml").read_text())
