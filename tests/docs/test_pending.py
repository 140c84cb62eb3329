"""docs/pending.md and docs/doctor.md have what the code says."""

from __future__ import annotations

from deployer.config.causes import Cause
from tests.docs.pending_table import build_pages, list_rules


def test_every_cause_has_its_rule() -> None:
    assert {one.code for one in list_rules()} == set(Cause)


def test_the_pages_are_made_from_the_code() -> None:
    """`python -m tests.docs.pending_table` writes them."""
    for path, text in build_pages().items():
        assert path.read_text() == text
