"""The keys of a sweep file: W&B's keys, and the checks of keys and values, as data; pure.

Keys and values are those of W&B's own schema (`config/schema.json` of its package `sweeps`, 0.3.0).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deployer.errors import Finding, KeyPath, Severity

NESTED = "parameters"
RANGE, NORMAL, BETA = ("min", "max"), ("mu", "sigma"), ("a", "b")
# Every distribution with its required and optional keys.
KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "constant": (("value",), ()),
    "categorical": (("values",), ()),
    "categorical_w_probabilities": (("values", "probabilities"), ()),
    "int_uniform": (RANGE, ()),
    "uniform": (RANGE, ()),
    "log_uniform_values": (RANGE, ()),
    "inv_log_uniform_values": (RANGE, ()),
    "log_uniform": (RANGE, ()),
    "inv_log_uniform": (RANGE, ()),
    "normal": ((), NORMAL),
    "log_normal": ((), NORMAL),
    "beta": ((), BETA),
    "q_uniform": (RANGE, ("q",)),
    "q_log_uniform_values": (RANGE, ("q",)),
    "q_log_uniform": (RANGE, ("q",)),
    "q_normal": ((), (*NORMAL, "q")),
    "q_log_normal": ((), (*NORMAL, "q")),
    "q_beta": ((), (*BETA, "q")),
}
KNOWN_KEYS = ("distribution", *sorted({key for n, m in KEYS.values() for key in n + m}), NESTED)
# W&B's defaults for missing bounds and shapes.
DEFAULTS = {"mu": 0.0, "sigma": 1.0, "a": 1.0, "b": 1.0, "q": 1.0}
# JSON's types: their names, and how to fix a value of another type.
KINDS = {
    "string": ("text", "put it in quotes"),
    "integer": ("a whole number", "write digits without quotes, such as 3"),
    "number": ("a number", "write a number without quotes"),
    "boolean": ("true or false", "write true or false"),
    "object": ("a mapping", "write `key: value` pairs below it"),
    "array": ("a list", "write a list: [...]"),
}
# Names that other tools, and flags, use for a key.
OTHER_NAMES = {"count": "run_cap", "max_runs": "run_cap", "script": "program"}
# Settings of deployer.yaml that are not keys of a sweep.
OF_DEPLOYER = frozenset(
    (
        *("backend", "code", "data", "gke", "isolate", "kubernetes", "local", "metrics", "on"),
        *("owner", "polls", "replicas", "wandb", "warm"),
    )
)


Findings = Iterator[Finding]
CODE = "sweep"


def problem(path: KeyPath, message: str, hint: str = "") -> Finding:
    """Return an error, for a sweep that cannot run."""
    return Finding(CODE, "", message, hint, path=path)


def doubt(path: KeyPath, message: str, hint: str) -> Finding:
    """Return a warning, for a sweep that W&B runs anyway."""
    return Finding(CODE, "", message, hint, Severity.WARNING, path=path)


def shape_keys(distribution: str) -> tuple[str, str]:
    """Return the two keys for the location and width of a numeric distribution."""
    allowed = {key for keys in KEYS[distribution] for key in keys}
    return next(keys for keys in (RANGE, NORMAL, BETA) if set(keys) <= allowed)


def distributions_with(keys: Iterable[Any]) -> list[str]:
    wanted = set(keys) - {"distribution"}
    return [name for name, (needed, more) in KEYS.items() if wanted <= {*needed, *more}]


def nearest(word: Any, known: Iterable[str]) -> str:
    """Return a hint with the known word nearest to a misspelled one, or with all known words."""
    words = list(known)
    found = difflib.get_close_matches(str(word), words, n=1)
    return f"did you mean {found[0]}?" if found else f"known: {', '.join(words)}"


def shown(value: Any) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class Key:
    """The allowed values of a key; `above` and `least` are limits of a number."""

    kind: str = "string"
    choices: tuple[Any, ...] = ()
    least: int | None = None
    above: int | None = None


METRIC: Mapping[str, Key] = {
    "name": Key(),
    "goal": Key(choices=("minimize", "maximize")),
    "target": Key("number"),
    "impute": Key(
        choices=("worst", "best", "latest"),
    ),
    "impute_while_running": Key(
        choices=("false", False, "worst", "best", "latest"),
    ),
}
HYPERBAND: Mapping[str, Key] = {
    "type": Key(choices=("hyperband",)),
    "min_iter": Key("integer", (), 1),
    "max_iter": Key("integer", (), 1),
    "s": Key("integer", (), 1),
    "eta": Key("number", above=1),
    "strict": Key("boolean"),
}
SCHEDULER: Mapping[str, Key] = {
    "engine": Key(choices=("wandb", "optuna", "ax")),
    "source": Key(),
    "optimizer": Key(),
    "search_space": Key(),
}
CONTROLLER: Mapping[str, Key] = {"type": Key(choices=("cloud", "local"))}
TOP: Mapping[str, Key] = {
    "method": Key(choices=("grid", "random", "bayes", "custom")),
    "parameters": Key("object"),
    "metric": Key("object"),
    "metrics": Key("array"),
    "run_cap": Key("integer", (), 1),
    "early_terminate": Key("object"),
    "command": Key("array"),
    "program": Key(),
    "name": Key(),
    "description": Key(),
    "entity": Key(),
    "project": Key(),
    "apiVersion": Key(),
    "kind": Key(choices=("sweep",)),
    "controller": Key("object"),
    "scheduler": Key("object"),
    "job": Key(),
    "image_uri": Key(),
}


def check_keys(path: KeyPath, mapping: Mapping[Any, Any], known: Mapping[str, Key]) -> Findings:
    """Warn about keys that W&B does not know, and suggest the nearest one."""
    for key in mapping:
        if key not in known:
            yield unknown((*path, str(key)), key, known)


def check_values(path: KeyPath, mapping: Mapping[Any, Any], known: Mapping[str, Key]) -> Findings:
    """Warn about values that W&B's schema does not allow, although W&B makes the sweep."""
    for name, key in known.items():
        if name not in mapping or not (said := find_misfit(mapping[name], key)):
            continue
        hint = KINDS[key.kind][1]
        if key.choices:
            hint = nearest(mapping[name], dict.fromkeys(str(one).lower() for one in key.choices))
        elif _is_of(mapping[name], key.kind):
            hint = "write a larger number"
        yield doubt((*path, name), said, hint)


def find_misfit(value: Any, key: Key) -> str:
    if key.choices:
        return "" if value in key.choices else f"{shown(value)} is not one of its values"
    if not _is_of(value, key.kind):
        return f"{shown(value)} is not {KINDS[key.kind][0]}"
    if key.least is not None and value < key.least:
        return f"{shown(value)} is below {key.least}"
    if key.above is not None and value <= key.above:
        return f"{shown(value)} is not above {key.above}"
    return ""


def unknown(path: KeyPath, key: Any, known: Mapping[str, Key]) -> Finding:
    """Return the warning about an unknown key, which W&B ignores."""
    hint = nearest(key, known)
    if key in OTHER_NAMES and OTHER_NAMES[key] in known:
        hint = f"did you mean {OTHER_NAMES[key]}?"
    if len(path) == 1 and key in OF_DEPLOYER:
        hint = "it belongs in deployer.yaml"
    return doubt(path, f"W&B does not know {shown(key)}", hint)


def find_misspelt(config: Mapping[str, Any], key: str, known: Mapping[str, Key]) -> str:
    """Return a hint if an unknown key is probably a misspelling of the missing one."""
    others = [str(other) for other in config if other not in known]
    found = difflib.get_close_matches(key, others, n=1)
    return f"rename {found[0]} to {key}" if found else ""


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_of(value: Any, kind: str) -> bool:
    if kind == "integer":
        return is_number(value) and value == int(value)
    if kind == "number":
        return is_number(value)
    types: dict[str, type] = {"string": str, "boolean": bool, "object": dict, "array": list}
    return isinstance(value, types[kind])
