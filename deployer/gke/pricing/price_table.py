"""The rows of a price table as a file has them, with all complaints at once; pure."""

from __future__ import annotations

import datetime
import difflib
import re
from typing import Annotated

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from deployer.config.check import STRICT, Text, check, matching, refuse
from deployer.config.document import Document, parse_document
from deployer.errors import ConfigError
from deployer.gke.specification.parts import ACCELERATOR, DISK_TYPE, HYPERDISK, MACHINE_TYPE

ANYWHERE = "any"
FEE = "cluster management fee"
ADDRESS = "external address"
# What is neither a machine type nor an accelerator.
OTHERS = (FEE, ADDRESS, DISK_TYPE, HYPERDISK)
REGION = r"^(any|[a-z]+-[a-z]+[0-9]+)$"
DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
DAY_HINT = "a day such as 2026-11-21"

Day = Annotated[str, matching(DAY, DAY_HINT)]
Region = Annotated[
    str, matching(REGION, f"a region such as us-central1 (not a zone), or {ANYWHERE}")
]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PriceRow:
    """What one of something costs an hour in a region, who says so, and when."""

    what: Text
    region: Region
    usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    source: Text
    spot: bool = False
    date: Day | None = None
    read: Day | None = None

    @property
    def day(self) -> str:
        """The source's own day, or else when it was read, maybe long after it was written."""
        return self.date or f"read {self.read}"

    def count_months(self, today: datetime.date | None) -> int:
        """Return how many whole months ago that day was; 0 where there is no today."""
        if today is None:
            return 0
        then = datetime.date.fromisoformat(self.date or self.read or "")
        months = (today.year - then.year) * 12 + today.month - then.month
        return max(0, months - (today.day < then.day))

    @model_validator(mode="after")
    def _check(self) -> PriceRow:
        if (self.date is None) == (self.read is None):
            said = "has a date and read" if self.date else "has no date"
            hint = "give `date`, the day of the source, or `read`, the day it was read"
            refuse(said, hint)
        try:
            self.count_months(datetime.date.max)
        except ValueError:
            said = f"{self.date or self.read} is no day"
            refuse(said, DAY_HINT)
        near = difflib.get_close_matches(self.what.lower(), OTHERS, n=1, cutoff=0.8)
        known = self.what in OTHERS or re.fullmatch(f"{MACHINE_TYPE}|{ACCELERATOR}", self.what)
        if not known or (near and self.what != near[0]):
            said = f"what: '{self.what}' is nothing that is counted"
            others = ", ".join(f"`{one}`" for one in OTHERS)
            hint = f"did you mean `{near[0]}`?" if near else f"a machine type, a GPU, {others}"
            refuse(said, hint)
        return self


def parse_rows(text: str, place: str) -> list[PriceRow]:
    """Read a table; raises ConfigError with every complaint and its line."""
    document = parse_document(text, place)
    rows = list(
        check(tuple[PriceRow, ...], document, [] if document.value is None else document.value)
    )
    twice = list(_list_twice(rows, document))
    if twice:
        raise ConfigError.join(twice)
    return rows


def _list_twice(rows: list[PriceRow], document: Document) -> list[ConfigError]:
    seen: dict[tuple[str, str, bool], int] = {}
    problems = []
    for index, row in enumerate(rows):
        first = seen.setdefault((row.what, row.region, row.spot), index)
        if first != index:
            line = document.line_of((f"[{first}]",))
            said = f"{row.what} in {row.region} is there twice (line {line} too)"
            place = document.place_of((f"[{index}]",))
            problems.append(ConfigError(place, said, "remove one of them"))
    return problems
