"""Parse the `parameters` of a sweep to a `Space`, and count its configurations.

Accepts what W&B's engine accepts. A parameter with an error is left out of the space.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from typing import Any

from deployer.errors import Finding, KeyPath
from deployer.sweeps.keys import (
    DEFAULTS,
    KEYS,
    KNOWN_KEYS,
    NESTED,
    distributions_with,
    doubt,
    nearest,
    problem,
    shape_keys,
    shown,
)
from deployer.sweeps.space import (
    LARGEST_EXPONENT,
    Categorical,
    Constant,
    Continuous,
    Integer,
    Parameter,
    Space,
)
from deployer.text import find_lookalike, number_hint

# W&B's schema has this pattern of parameter names; like W&B, only warn about other names.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# W&B's tolerance (numpy.isclose) for a sum of probabilities that should be 1.
SUM_TOLERANCE = 1e-5
# exp(20) is 5e8: a larger bound of `log_uniform` is probably a value, not an exponent.
LIKELY_EXPONENT = 20
RAY = re.compile(r"(ray\.)?tune\.\w+|grid_search$")
RANGE = "write values: [...], or min: and max: with a distribution such as log_uniform_values"


def parse_parameters(raw: Any) -> tuple[Space, tuple[Finding, ...]]:
    """Parse a sweep's `parameters`; return the space to search and all problems."""
    reader = _Reader()
    reader.read_group((NESTED,), (), raw)
    parameters = sorted(reader.parameters, key=lambda p: p.path)
    return Space(tuple(parameters)), tuple(reader.problems)


def fill_distributions(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with `distribution` filled in like W&B's client: top level, min and max."""
    filled = copy.deepcopy(dict(config))
    parameters = filled.get(NESTED)
    for raw in parameters.values() if isinstance(parameters, dict) else ():
        if isinstance(raw, dict) and {"min", "max"} <= raw.keys() and "distribution" not in raw:
            types = {type(raw["min"]), type(raw["max"])}
            if types in ({int}, {float}):
                raw["distribution"] = "int_uniform" if types == {int} else "uniform"
    return filled


def _is_parameter(raw: Any) -> bool:
    return isinstance(raw, Mapping) and not raw.keys().isdisjoint(KNOWN_KEYS)


class _Reader:
    """Collects parameters and problems recursively; `place` is the current path."""

    def __init__(self) -> None:
        self.parameters: list[Parameter] = []
        self.problems: list[Finding] = []
        self.errors = 0

    def complain(self, place: KeyPath, message: str, hint: str) -> None:
        self.problems.append(problem(place, message, hint))
        self.errors += 1

    def warn(self, place: KeyPath, message: str, hint: str) -> None:
        self.problems.append(doubt(place, message, hint))

    def read_group(self, place: KeyPath, path: KeyPath, raw: Any) -> None:
        if not isinstance(raw, Mapping):
            self.complain(place, f"{shown(raw)} is not a mapping", "write lr: {values: [0.1, 1.0]}")
        elif not raw:
            self.complain(place, "there are no parameters", "add one: lr: {values: [0.1, 1.0]}")
        else:
            for name, form in raw.items():
                self.read_named((*place, str(name)), path, name, form)

    def read_named(self, place: KeyPath, path: KeyPath, name: Any, raw: Any) -> None:
        if not isinstance(name, str):
            self.complain(place, f"the name {shown(name)} must be text", "put the name in quotes")
        elif raw is None:
            self.complain(place, "it has no values", "add value, values, or min and max")
        elif not isinstance(raw, Mapping):
            key = "values" if isinstance(raw, list) else "value"
            said, hint = f"{shown(raw)} is not a mapping", f"write {{{key}: {raw}}}"
            if isinstance(raw, str) and RAY.match(raw):
                said, hint = f"{shown(raw)} is a range of Ray Tune", RANGE
            self.complain(place, said, hint)
        elif NESTED in raw and "distribution" not in raw:
            self.check_name(place, name)
            self.check_keys(place, "a group of parameters", raw, (NESTED,))
            self.read_group((*place, NESTED), (*path, name), raw[NESTED])
        else:
            self.check_name(place, name)
            self.read_form(place, (*path, name), raw)

    def read_form(self, place: KeyPath, path: KeyPath, raw: Mapping[str, Any]) -> None:
        before = self.errors
        distribution = self.find_distribution(place, raw)
        if distribution is None:
            return
        needed, more = KEYS[distribution]
        self.check_keys(place, distribution, raw, needed + more)
        missing = [key for key in needed if key not in raw]
        for key in missing:
            self.complain(place, f"{distribution} needs {key}", f"add {key}")
        parameter = None if missing else self.build(place, path, distribution, raw)
        if parameter is not None and self.errors == before:
            self.parameters.append(parameter)

    def find_distribution(self, place: KeyPath, raw: Mapping[str, Any]) -> str | None:
        """Return the named or implied distribution, by the rules of W&B's engine."""
        if "distribution" in raw:
            named = raw["distribution"]
            if isinstance(named, str) and named in KEYS:
                return named
            message = f"{shown(named)} is not a distribution"
            self.complain((*place, "distribution"), message, nearest(named, KEYS))
            return None
        if "values" in raw:
            return "categorical_w_probabilities" if "probabilities" in raw else "categorical"
        if "value" in raw:
            return "constant"
        if "min" in raw or "max" in raw:
            bounds = [raw[key] for key in ("min", "max") if key in raw]
            return "int_uniform" if all(type(bound) is int for bound in bounds) else "uniform"
        self.complain_formless(place, raw)
        return None

    def complain_formless(self, place: KeyPath, raw: Mapping[str, Any]) -> None:
        unknown = [key for key in raw if key not in KNOWN_KEYS]
        deep = [str(key) for key in unknown if _is_parameter(raw[key])]
        if unknown and RAY.match(str(unknown[0])):
            self.complain(place, f"{unknown[0]} belongs to Ray Tune; W&B ignores it", RANGE)
        elif unknown:
            message = f"W&B does not know {unknown[0]}, and no other key gives values"
            hint = nearest(unknown[0], KNOWN_KEYS)
            if deep:
                hint = (
                    f"move {', '.join(deep)} to the left, level with {place[-1]}, and remove that; "
                )
                hint += f"for a group of parameters, write {NESTED}: between them"
            self.complain(place, message, hint)
        elif raw:
            named = " or ".join(distributions_with(raw)[:2]) or "normal"
            message = f"{', '.join(raw)} alone does not define values"
            self.complain(place, message, f"add distribution: {named}")
        else:
            self.complain(place, "it has no values", "add value, values, or min and max")

    def check_name(self, place: KeyPath, name: str) -> None:
        if not NAME.fullmatch(name):
            message = f"W&B's schema does not allow the name {shown(name)}"
            self.warn(place, message, "use letters, digits, _ . - and begin with a letter or _")

    def check_keys(
        self, place: KeyPath, form: str, raw: Mapping[str, Any], allowed: tuple[str, ...]
    ) -> None:
        """Report keys of another form, and warn about keys that W&B does not know."""
        for key in raw:
            if key in KNOWN_KEYS and key not in (*allowed, "distribution"):
                fits = distributions_with(raw)
                hint = f"write distribution: {fits[0]}, or remove it" if fits else "remove it"
                self.complain((*place, key), f"{form} takes no {key}", hint)
            elif key not in KNOWN_KEYS:
                hint = nearest(key, (*allowed, "distribution"))
                if _is_parameter(raw[key]):
                    hint = f"move this line and its values to the left, level with {place[-1]}"
                self.warn((*place, str(key)), f"W&B does not know {shown(key)} here", hint)

    def build(
        self, place: KeyPath, path: KeyPath, name: str, raw: Mapping[str, Any]
    ) -> Parameter | None:
        if name == "constant":
            return Constant(path, raw["value"])
        if name.startswith("categorical"):
            return self.build_categorical(place, path, raw)
        first_key, second_key = shape_keys(name)
        first = self.number(place, first_key, raw)
        second = self.number(place, second_key, raw)
        q = self.number(place, "q", raw) if name.startswith("q_") else None
        if first is None or second is None:
            return None
        self.check_shape(place, name, first, second)
        if q is not None and q <= 0:
            self.complain((*place, "q"), f"{q} is not above 0", "write the step between two values")
        if name != "int_uniform":
            return Continuous(path, name, first, second, q)
        for key, number in ((first_key, first), (second_key, second)):
            if not isinstance(number, int):
                hint = f"write {round(number)}, or distribution: uniform"
                self.complain((*place, key), f"{number} is not an integer", hint)
        return Integer(path, int(first), int(second))

    def build_categorical(
        self, place: KeyPath, path: KeyPath, raw: Mapping[str, Any]
    ) -> Parameter | None:
        values = raw["values"]
        if not isinstance(values, list | tuple):
            message = f"{shown(values)} is not a list"
            listed = ", ".join(map(str, values)) if isinstance(values, Mapping) else values
            self.complain((*place, "values"), message, f"write values: [{listed}]")
            return None
        if not values:
            self.complain((*place, "values"), "the list is empty", "add at least one value")
        if "probabilities" not in raw:
            return Categorical(path, tuple(values))
        weights = raw["probabilities"]
        if not self.probabilities_fit((*place, "probabilities"), len(values), weights):
            return None
        return Categorical(path, tuple(values), tuple(weights))

    def probabilities_fit(self, place: KeyPath, count: int, weights: Any) -> bool:
        numbers = isinstance(weights, list) and all(_is_number(w) and w >= 0 for w in weights)
        if not numbers:
            self.complain(
                place,
                "not a list of numbers of at least 0",
                "write a list of numbers such as [0.5, 0.5]",
            )
        elif len(weights) != count:
            message = f"{len(weights)} probabilities for {count} values"
            self.complain(place, message, "write one for each value")
        elif abs(sum(weights) - 1) > SUM_TOLERANCE:
            message = f"the sum is {sum(weights):.6g}, not 1"
            self.complain(place, message, "divide each by their sum")
        else:
            return True
        return False

    def number(self, place: KeyPath, key: str, raw: Mapping[str, Any]) -> float | None:
        value = raw.get(key, DEFAULTS.get(key))
        if isinstance(value, str):
            meant = find_lookalike(value)
            hint = f"write {meant[1]}" if meant else number_hint(value)
            hint = hint or f"write a number, or values: [{value}]"
            self.complain((*place, key), f"{value!r} is text, not a number", hint)
        elif not _is_number(value):
            self.complain((*place, key), f"{shown(value)} is not a finite number", "write a number")
        else:
            return value  # type: ignore[no-any-return]
        return None

    def check_shape(self, place: KeyPath, name: str, first: float, second: float) -> None:
        """Report numbers for which the distribution is undefined."""
        first_key, second_key = shape_keys(name)
        if first_key == "min" and first >= second:
            hint = "swap them" if first > second else f"write value: {first}"
            self.complain((*place, "min"), f"{first} is not below max ({second})", hint)
        elif name.endswith("_values") and first <= 0:
            self.complain((*place, "min"), f"{first} has no logarithm", "write a min above 0")
        elif first_key == "mu" and second < 0:
            self.complain((*place, "sigma"), f"{second} is below 0", "write 0 or more")
        elif first_key == "a" and min(first, second) <= 0:
            key = first_key if first <= 0 else second_key
            self.complain((*place, key), f"{min(first, second)} is not above 0", "write 1 or more")
        elif name.endswith("log_uniform"):
            self.check_exponents(place, name, first, second)

    def check_exponents(self, place: KeyPath, name: str, first: float, second: float) -> None:
        low, high = (-second, -first) if name.startswith("inv_") else (first, second)
        hint = f"use {name}_values and write the values themselves"
        if max(abs(low), abs(high)) > LARGEST_EXPONENT:
            message = f"{name} takes exponents of e, and e to the {high:g} is too large"
            self.complain(place, message, hint)
        else:
            message = f"{name} takes exponents of e: values go from "
            if low > 0 and (high <= 1 or high > LIKELY_EXPONENT):
                message = f"{first} and {second} look like values, and {message}"
            self.warn(place, f"{message}{math.exp(low):.3g} to {math.exp(high):.3g}", hint)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def expected_count(config: Mapping[str, Any]) -> int | None:
    """Return how many configurations a sweep has; None if endless or not searchable.

    A grid has the product of its distinct values; `run_cap` limits every method.
    """
    cap = config.get("run_cap")
    limit = cap if type(cap) is int and cap > 0 else None
    if config.get("method") != "grid":
        return limit
    space, _ = parse_parameters(config.get("parameters", {}))
    size = space.grid_size
    return limit if size is None else size if limit is None else min(size, limit)
