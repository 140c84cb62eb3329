"""How the doctor's findings look: a line each, the remedy below, what is right joined."""

from __future__ import annotations

import pytest

from deployer.cli.doctor import show_findings
from deployer.errors import right, unknown, wrong


def test_findings_are_lines_with_their_remedies(capsys: pytest.CaptureFixture[str]) -> None:
    show_findings(
        (
            right("settings", "kubernetes", "the settings are valid there"),
            right("data", "kubernetes", "the data sets exist"),
            right("namespace", "namespace research", "is there"),
            wrong("secret", "Secret hub", "is missing", "kubectl create secret generic hub"),
            unknown("nodes", "nodes", "may not be listed"),
        ),
        "table",
    )
    assert capsys.readouterr().out == (
        "✓ kubernetes: the settings are valid there; the data sets exist\n"
        "✓ namespace research: is there\n"
        "✗ Secret hub: is missing\n"
        "    kubectl create secret generic hub\n"
        "? nodes: may not be listed\n"
        "3 right, 1 wrong, 1 unknown\n"
    )
