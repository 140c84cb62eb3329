"""Which names a script can log, as far as its text says; pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.scripts.script_text import Module
from deployer.sweeps.parameters.keys import nearest
from deployer.sweeps.problem import Problem

# Whatever these log, they log under names of their own.
LOGGING_PACKAGES = frozenset(
    (
        *(
            "lightning",
            "pytorch_lightning",
            "keras",
            "tensorflow",
            "transformers",
            "trl",
            "accelerate",
        ),
        *("composer", "ultralytics", "xgboost", "lightgbm", "catboost", "fastai", "ignite"),
        *("stable_baselines3", "tensorboard", "tensorboardX", "sb3_contrib", "skorch", "ray"),
    )
)
MATHEMATICS = frozenset(
    ("math", "cmath", "np", "numpy", "torch", "jnp", "tf", "F", "scipy", "mpmath")
)
LOGGERS = frozenset(("logging", "logger", "_logger", "LOGGER", "log"))


@dataclass(frozen=True)
class Logged:
    """Names that are written out; `open` where others may be logged, too."""

    names: frozenset[str]
    open: bool


def check_metric(config: Mapping[str, Any], logged: Logged, script: str) -> Iterator[Problem]:
    """Warn of a metric that no `log` call could write."""
    metric = config.get("metric")
    name = metric.get("name") if isinstance(metric, Mapping) else None
    if not isinstance(name, str) or logged.open or name in logged.names:
        return
    message = f"{script} does not log {name}"
    yield Problem(("metric", "name"), message, nearest(name, sorted(logged.names)), "warning")


def find_logged(modules: Sequence[Module]) -> Logged:
    """Return the names that `log` and `summary` get in a script and the project's modules."""
    names: set[str] = set()
    unsure = False
    for module in modules:
        if module.tree is None or module.imports & LOGGING_PACKAGES:
            return Logged(frozenset(), True)
        for found in _read_module(module.tree):
            if found is None:
                unsure = True
            else:
                names.add(found)
    return Logged(frozenset(names), unsure or not names)


def _read_module(tree: ast.Module) -> Iterator[str | None]:
    """Yield each name that is logged, None for what cannot be told."""
    mappings = _find_mappings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _read_call(node, mappings)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if _last_name(node.value) == "summary":
                yield _constant(node.slice)
        elif _is_integration(node):
            yield None


def _is_integration(node: ast.AST) -> bool:
    """Tell whether it names what logs by itself, such as WandbLogger or report_to=."""
    if isinstance(node, ast.keyword):
        return node.arg in ("report_to", "sync_tensorboard")
    if isinstance(node, ast.alias):
        return "Wandb" in node.name
    return isinstance(node, ast.Name | ast.Attribute) and "Wandb" in _last_name(node)


def _read_call(call: ast.Call, mappings: dict[str, list[str] | None]) -> Iterator[str | None]:
    name = _last_name(call.func)
    base = _last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if name == "log" and base not in MATHEMATICS and base not in LOGGERS:
        given = call.args[0] if call.args else next((k.value for k in call.keywords), None)
        yield from _read_mapping(given, mappings)
    elif name == "define_metric":
        yield from _read_definition(call)
    elif name == "update" and base == "summary":
        yield from _read_mapping(call.args[0] if call.args else None, mappings)


def _read_definition(call: ast.Call) -> Iterator[str | None]:
    """Yield what a metric's summary holds: `loss.min` for define_metric("loss", summary="min")."""
    given = {one.arg: one.value for one in call.keywords}
    if "summary" not in given:
        return
    metric = call.args[0] if call.args else given.get("name")
    name, kinds = _constant(metric) if metric else None, _constant(given["summary"])
    if name is None or "*" in name or kinds is None:
        yield None
        return
    yield from (f"{name}.{kind.strip()}" for kind in kinds.split(","))


def _read_mapping(
    node: ast.expr | None, mappings: dict[str, list[str] | None]
) -> Iterator[str | None]:
    if isinstance(node, ast.Dict):
        yield from _list_keys(node)
    elif isinstance(node, ast.Name) and mappings.get(node.id):
        yield from mappings[node.id] or ()
    else:
        yield None


def _list_keys(node: ast.Dict, above: str = "") -> Iterator[str | None]:
    for key, value in zip(node.keys, node.values, strict=True):
        name = _constant(key) if key is not None else None
        if name is None:
            yield None
            continue
        yield above + name
        if isinstance(value, ast.Dict):
            yield from _list_keys(value, f"{above}{name}.")


def _find_mappings(tree: ast.Module) -> dict[str, list[str] | None]:
    """Return the keys of each variable that is only ever a mapping with written keys."""
    found: dict[str, list[str] | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _note(found, target, node.value)
        elif isinstance(node, ast.arg):
            found[node.arg] = None
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            _note(found, node.target, getattr(node, "value", None))
        elif isinstance(node, ast.Attribute) and node.attr in ("update", "setdefault"):
            found[_last_name(node.value)] = None
    return found


def _note(found: dict[str, list[str] | None], target: ast.expr, value: ast.expr | None) -> None:
    if isinstance(target, ast.Subscript):
        name, keys = _last_name(target.value), [_constant(target.slice)]
    elif isinstance(target, ast.Name):
        name, keys = target.id, list(_list_keys(value)) if isinstance(value, ast.Dict) else [None]
    else:
        return
    known = found.get(name, [])
    written = [key for key in keys if key is not None]
    whole = known is not None and len(written) == len(keys)
    found[name] = [*(known or []), *written] if whole else None


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
