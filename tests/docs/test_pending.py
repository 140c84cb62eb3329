"""docs/pending.md has a line for each cause; tests of reasons compare the texts."""

from __future__ import annotations

from deployer.executors.reason import Cause
from tests.docs.pending_table import list_rows


def test_every_cause_has_its_line() -> None:
    named = {row.cause for row in list_rows()}
    assert named == set(Cause)
