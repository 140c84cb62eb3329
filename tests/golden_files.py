"""Files that hold what is expected. `UPDATE_GOLDENS=1 pytest` writes them anew: review the diff."""

from __future__ import annotations

import os
from pathlib import Path

UPDATE = bool(os.environ.get("UPDATE_GOLDENS"))
FOLDER = Path(__file__).parent / "goldens"


def check_golden(name: str, text: str) -> None:
    """Compare a text with the golden of that name, or make it the golden."""
    path = FOLDER / name
    if UPDATE:
        path.write_text(text)
    assert path.exists(), f"UPDATE_GOLDENS=1 writes {path}"
    assert text == path.read_text()
