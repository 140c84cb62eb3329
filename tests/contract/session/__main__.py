"""Runs one part and writes what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wandb

from tests.contract.session.reading import run_reading
from tests.contract.session.runs import run_ends, run_files, run_words
from tests.contract.session.steps import failed, step
from tests.contract.session.sweeps import run_agents, run_controls

ACTS: dict[str, Callable[[], dict[str, Any]]] = {
    "words": run_words,
    "files": run_files,
    "reading": run_reading,
    "controls": run_controls,
    "agents": run_agents,
    "ends": run_ends,
}


def main() -> None:
    """Run the part that is named, and write its outcome."""
    part = sys.argv[1]
    differs = step(f"the rest of {part}", ACTS[part]) or {}
    about = {"wandb": wandb.__version__, "package": str(Path(wandb.__file__).parent)}
    outcome = {**about, "failed": failed, "differs": differs}
    Path("outcome.json").write_text(json.dumps(outcome))


if __name__ == "__main__":
    main()
