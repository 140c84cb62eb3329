"""Short sweep files for tests, and what is said about them."""

from __future__ import annotations

import pytest

from deployer.errors import ConfigError
from deployer.sweeps.sweep_file import parse_sweep


def errors_of(text: str, run_cap: int | None = None) -> list[tuple[str, str]]:
    """Return (place and message, hint) of each complaint."""
    with pytest.raises(ConfigError) as caught:
        parse_sweep(text, "s.yaml", run_cap)
    return [(one.text, one.fix) for one in caught.value.findings if one.is_error]


def grid(parameters: str, more: str = "") -> str:
    """Return a sweep file with these parameters from line 4 on."""
    body = "".join(f"  {line}\n" for line in parameters.splitlines())
    return f"program: train.py\nmethod: grid\nparameters:\n{body}{more}"


def random_sweep(parameters: str) -> str:
    return grid(parameters, "run_cap: 3\n").replace("method: grid", "method: random")
