"""A run's configuration: the sweep's own parameters, flat, and comparable; pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from deployer.sweeps.parameters.values import value_key

PLAIN = (float, int, str)


def list_parameters(sweep_config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a sweep's parameters, nested ones joined by dots (`optimizer.lr`)."""
    parameters = sweep_config.get("parameters")
    return tuple(_names(parameters, "")) if isinstance(parameters, Mapping) else ()


def flatten_configuration(run_config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of the sweep's parameters in one run.

    A value that is a mapping itself is spread too, so that an explicit list of configurations
    (one parameter whose values are mappings) reads like any other sweep.
    """
    flat: dict[str, Any] = {}
    for name in names:
        found, value = _look_up(run_config, name)
        if found and isinstance(value, PLAIN):  # nearly always, and there are thousands of runs
            flat[name] = value
        elif found:
            flat.update(_spread(name, value))
    return flat


def configuration_key(flat: Mapping[str, Any]) -> Hashable:
    """Return a key that is equal for equal configurations; `value_key` says when values are."""
    return frozenset((name, value_key(value)) for name, value in flat.items())


def _names(parameters: Mapping[str, Any], prefix: str) -> list[str]:
    names: list[str] = []
    for key, form in parameters.items():
        inner = form.get("parameters") if isinstance(form, Mapping) else None
        if isinstance(inner, Mapping):
            names += _names(inner, f"{prefix}{key}.")
        else:
            names.append(f"{prefix}{key}")
    return names


def _look_up(config: Mapping[str, Any], name: str) -> tuple[bool, Any]:
    """Find a dotted name: as it stands (names may hold dots), else level by level."""
    if name in config:
        return True, config[name]
    head, dot, rest = name.partition(".")
    inner = config.get(head)
    if dot and isinstance(inner, Mapping):
        return _look_up(inner, rest)
    return False, None


def _spread(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: value}
    flat: dict[str, Any] = {}
    # By name: the SDK keeps no order of a mapping's keys.
    for key, inner in sorted(value.items(), key=lambda item: str(item[0])):
        flat.update(_spread(f"{name}.{key}", inner))
    return flat
