"""Spaces of parameters for the tests of their forms and grids."""

from __future__ import annotations

from typing import Any

from deployer.sweeps.parameters import parse_parameters
from deployer.sweeps.space import Parameter, Space


def space_of(parameters: dict[str, Any]) -> Space:
    space, problems = parse_parameters(parameters)
    assert [c for c in problems if c.severity == "error"] == []
    return space


def single(raw: dict[str, Any]) -> Parameter:
    (parameter,) = space_of({"p": raw}).parameters
    return parameter
