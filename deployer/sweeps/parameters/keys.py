"""W&B's keywords of a parameter, and suggestions for misspelled ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

NESTED = "parameters"
RANGE, NORMAL, BETA = ("min", "max"), ("mu", "sigma"), ("a", "b")
# Every distribution with the keys it needs and those it may have.
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
# What W&B takes for a bound or a shape that is not written.
DEFAULTS = {"mu": 0.0, "sigma": 1.0, "a": 1.0, "b": 1.0, "q": 1.0}


def shape_keys(distribution: str) -> tuple[str, str]:
    """Return the two keys that give a numeric distribution its place and width."""
    allowed = {key for keys in KEYS[distribution] for key in keys}
    return next(keys for keys in (RANGE, NORMAL, BETA) if set(keys) <= allowed)


def distributions_with(keys: Iterable[Any]) -> list[str]:
    """Return the distributions that may have all these keys."""
    wanted = set(keys) - {"distribution"}
    return [name for name, (needed, more) in KEYS.items() if wanted <= {*needed, *more}]


def nearest(word: Any, known: Iterable[str]) -> str:
    """Return a hint that suggests the known word nearest to a misspelled one, or lists them all."""
    words = list(known)
    found = difflib.get_close_matches(str(word), words, n=1)
    return f"did you mean {found[0]}?" if found else f"known: {', '.join(words)}"


def shown(value: Any) -> str:
    """Return a value as a complaint shows it."""
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
