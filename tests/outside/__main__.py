"""`python -m tests.outside` says which files are older than six months; with VERSION it keeps what
that version of wandb names."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from tests.outside.files import list_files


def report() -> None:
    """Print each file with its version and date, the old ones marked."""
    today = datetime.now(UTC).date()
    files = list(list_files())
    for one in files:
        mark = "OLD" if one.is_old(today) else ""
        sys.stdout.write(f"{mark:4}{one.date}  {one.name:44} {one.version}\n")
    old = sum(one.is_old(today) for one in files)
    sys.stdout.write(f"{old} of {len(files)} are older than six months\n")


if __name__ == "__main__":
    if not sys.argv[1:]:
        report()
    for version in sys.argv[1:]:
        from tests.contract.sdks import python_with
        from tests.outside.recording import keep

        sys.stdout.write(f"{keep(python_with(version), version)}\n")
