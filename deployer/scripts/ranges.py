"""Which values of a flag are worth trying, told from its name, type and default; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deployer.scripts.flags import Flag

Parameter = Mapping[str, Any]
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
MOST_CHOICES = 12
# Words of a name, and the range where the default says nothing.
LOGARITHMIC = (
    (("lr",), (1e-4, 1e-1)),
    (("learning", "rate"), (1e-4, 1e-1)),
    (("wd",), (1e-6, 1e-2)),
    (("weight", "decay"), (1e-6, 1e-2)),
    (("l1",), (1e-6, 1e-2)),
    (("l2",), (1e-6, 1e-2)),
    (("reg",), (1e-6, 1e-2)),
    (("temperature",), (0.1, 10.0)),
)
LINEAR = (
    (("dropout",), (0.0, 0.5)),
    (("drop",), (0.0, 0.5)),
    (("smoothing",), (0.0, 0.2)),
    (("momentum",), (0.8, 0.99)),
    (("gamma",), (0.8, 0.999)),
    (("mixup",), (0.0, 0.5)),
)
DOUBLING = (
    (("batch",), (32, 64, 128)),
    (("bs",), (32, 64, 128)),
    (("hidden",), (64, 128, 256)),
    (("width",), (64, 128, 256)),
    (("dim",), (64, 128, 256)),
    (("channels",), (16, 32, 64)),
    (("units",), (64, 128, 256)),
    (("filters",), (16, 32, 64)),
    (("embed",), (64, 128, 256)),
)
COUNTED = (("layers",), ("depth",), ("blocks",))
# What a sweep rarely tries: of these, an int or a switch stays as it is.
FIXED = frozenset(
    (
        *(
            "seed",
            "workers",
            "epochs",
            "epoch",
            "steps",
            "iters",
            "iterations",
            "device",
            "gpu",
            "gpus",
        ),
        *(
            "cuda",
            "cpu",
            "debug",
            "verbose",
            "quiet",
            "wandb",
            "log",
            "save",
            "resume",
            "test",
            "eval",
        ),
        *("dry", "run", "local", "rank", "port", "fast", "profile", "compile", "pin", "download"),
    )
)
DECADE = 10.0


def choose_parameter(flag: Flag) -> Parameter | None:
    """Return a sweep's parameter for a flag; None where it should stay as it is."""
    words = [word.lower() for word in WORD.findall(flag.name)]
    if flag.many or FIXED & {*words}:
        return None
    if flag.choices:
        return {"values": list(flag.choices)} if 1 < len(flag.choices) <= MOST_CHOICES else None
    if flag.plain:
        return {"values": [True, False]} if flag.default in (None, False) else None
    if flag.type == "float":
        return _choose_float(words, flag.default)
    if flag.type == "int":
        return _choose_int(words, flag.default)
    return None


def _choose_float(words: list[str], default: Any) -> Parameter | None:
    for name, bounds in LOGARITHMIC:
        if _has(words, name):
            low, high = bounds
            if _is_number(default) and default > 0:
                low, high = _round(default / DECADE), _round(default * DECADE)
            return {"distribution": "log_uniform_values", "min": low, "max": high}
    for name, (low, high) in LINEAR:
        if _has(words, name):
            if _is_number(default):
                low, high = min(low, default), max(high, default)
            return {"distribution": "uniform", "min": low, "max": high}
    return None


def _choose_int(words: list[str], default: Any) -> Parameter | None:
    known = _is_number(default) and default > 0
    for name, values in DOUBLING:
        if _has(words, name):
            doubled = sorted({max(1, default // 2), default, default * 2}) if known else [*values]
            return {"values": doubled}
    if any(_has(words, name) for name in COUNTED):
        middle = default if known else 2
        return {"distribution": "int_uniform", "min": max(1, middle - 1), "max": middle + 1}
    return None


def _has(words: list[str], name: tuple[str, ...]) -> bool:
    return {*name} <= {*words}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _round(value: float) -> float:
    return float(f"{value:.2g}")
