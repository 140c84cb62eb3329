"""Parameters that run and look doubtful: values that repeat, odd names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployer.sweeps.parameters.forms import Constant, Space, value_key
from deployer.sweeps.parameters.keys import NESTED, shown
from deployer.sweeps.problem import Place, Problem, Problems, doubt
from deployer.sweeps.validation.keys import check_finite, check_tuples

# What W&B itself keeps in the config of a run.
RESERVED = ("_wandb", "wandb_version")


def check_parameters(config: Mapping[str, Any], space: Space) -> Problems:
    """Warn about parameters that W&B runs, and hardly as they are meant."""
    for path, raw in _walk((NESTED,), config.get(NESTED)):
        yield from _check_values(path, raw, config.get("method"))
    yield from _check_names(space)
    free = [p for p in space.parameters if not isinstance(p, Constant) and p.grid_size != 1]
    several = config.get("method") in ("random", "bayes") and config.get("run_cap") != 1
    if several and space.parameters and not free:
        message = "all parameters have one value, so all runs are the same"
        yield doubt((NESTED,), message, "add values or a range to one of them")


def check_bounds(config: Mapping[str, Any]) -> Problems:
    """Complain about an int and a float as bounds: W&B's client cannot tell which is meant."""
    parameters = config.get(NESTED)
    for name, raw in parameters.items() if isinstance(parameters, Mapping) else ():
        if not isinstance(raw, Mapping) or "distribution" in raw:
            continue
        if {type(raw.get("min")), type(raw.get("max"))} == {int, float}:
            message = f"min {raw['min']} and max {raw['max']} mix an integer and a decimal number"
            path = (NESTED, str(name))
            yield Problem(path, message, "write both in the same way, or add distribution: uniform")


def _walk(place: Place, group: Any) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """Yield each parameter that is no group, with its place in the file."""
    for name, raw in group.items() if isinstance(group, Mapping) else ():
        if isinstance(raw, Mapping) and NESTED in raw:
            yield from _walk((*place, str(name), NESTED), raw[NESTED])
        elif isinstance(raw, Mapping):
            yield (*place, str(name)), raw


def _check_values(path: Place, raw: Mapping[str, Any], method: Any) -> Problems:
    """Warn about values that are not finite, appear twice, or mix booleans with numbers."""
    values = raw.get("values")
    yield from check_finite((*path, "value"), raw.get("value"))
    yield from check_tuples((*path, "values"), values)
    seen: dict[Any, Any] = {}
    for index, value in enumerate(values if isinstance(values, list) else ()):
        place = (*path, "values", f"[{index}]")
        yield from check_finite(place, value)
        key = value_key(value)
        if key in seen:
            message = f"{shown(value)} appears twice" + (
                f", as {shown(seen[key])}" if repr(seen[key]) != repr(value) else ""
            )
            effect = (
                "a grid runs it once"
                if method == "grid"
                else "random and bayes draw it twice as often"
            )
            yield doubt(place, f"{message}: {effect}", "remove one of them")
        else:
            seen[key] = value
    yield from _check_booleans((*path, "values"), values)


def _check_booleans(path: Place, values: Any) -> Problems:
    if not isinstance(values, list):
        return
    flags = [value for value in values if isinstance(value, bool)]
    numbers = [value for value in values if type(value) in (int, float)]
    if flags and any(number not in (0, 1) for number in numbers):
        message = f"{shown(flags[0])} is among numbers, and is passed as the text"
        yield doubt(path, message, "write numbers only, or two parameters")


def _check_names(space: Space) -> Problems:
    """Doubt names that W&B uses itself, and those that two parameters share in its config."""
    seen: dict[str, Place] = {}
    for parameter in sorted(space.parameters, key=lambda p: (len(p.path), p.path)):
        name = ".".join(parameter.path)
        if parameter.path[0] in RESERVED:
            message = "W&B keeps its own settings under this name, so runs may lose it"
            yield doubt(_place(parameter.path), message, "choose another name")
        if name in seen:
            message = f"results call it {name}, like another parameter"
            yield doubt(_place(parameter.path), message, "rename one of them")
        seen.setdefault(name, parameter.path)


def _place(path: Place) -> Place:
    return tuple(part for name in path for part in (NESTED, name))
