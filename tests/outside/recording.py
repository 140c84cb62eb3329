"""Keeps what one version of the SDK names in a file of this folder."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
WORDS = FOLDER / "sdk_words.py"


def ask_sdk(python: Path) -> dict[str, Any]:
    """Return what the SDK of a Python names; contacts nothing."""
    done = subprocess.run(
        [str(python), "-I", str(WORDS)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def path_of(version: str) -> Path:
    """Return the file of one version."""
    return FOLDER / f"wandb-sdk-{version}.yaml"


def read_kept(version: str) -> dict[str, Any]:
    """Return what is kept of one version."""
    return dict(yaml.safe_load(path_of(version).read_text()))


def list_differences(version: str, said: dict[str, Any]) -> list[str]:
    """Return what is said otherwise than is kept of a version: hosts, pages, keys, variables."""
    kept = read_kept(version)
    found = []
    for name, now in said.items():
        before, after = (
            {json.dumps(one) for one in (value.items() if isinstance(value, dict) else value)}
            if isinstance(value, dict | list)
            else {json.dumps(value)}
            for value in (kept.get(name), now)
        )
        found += [f"{name}: no longer {one}" for one in sorted(before - after)]
        found += [f"{name}: now {one}" for one in sorted(after - before)]
    return found


def list_kept() -> list[str]:
    """Return the versions that are kept."""
    return sorted(file.stem.removeprefix("wandb-sdk-") for file in FOLDER.glob("wandb-sdk-*.yaml"))


def keep(python: Path, version: str) -> Path:
    """Write what the SDK of a Python names; return the file."""
    head = {
        "source": f"wandb {version} from PyPI, asked by tests/outside/sdk_words.py",
        "version": version,
        "date": datetime.now(UTC).date().isoformat(),
    }
    text = yaml.safe_dump({**head, **ask_sdk(python)}, sort_keys=False, width=100)
    path_of(version).write_text(text)
    return path_of(version)
