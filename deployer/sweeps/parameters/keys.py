"""W&B's words in a parameter, and how to name the one that was meant."""

from __future__ import annotations

import difflib
import math
import re
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
EXPONENT = re.compile(r"([-+]?)(\d[\d_]*)?(?:\.(\d*))?[eE]([-+]?)(\d+)")


def shape_keys(distribution: str) -> tuple[str, str]:
    """Return the two keys that give a numeric distribution its place and width."""
    allowed = {key for keys in KEYS[distribution] for key in keys}
    return next(keys for keys in (RANGE, NORMAL, BETA) if set(keys) <= allowed)


def distributions_with(keys: Iterable[Any]) -> list[str]:
    """Return the distributions that may have all these keys."""
    wanted = set(keys) - {"distribution"}
    return [name for name, (needed, more) in KEYS.items() if wanted <= {*needed, *more}]


def nearest(word: Any, known: Iterable[str]) -> str:
    """Return a hint that names the known word nearest to a mistaken one, or all of them."""
    words = list(known)
    found = difflib.get_close_matches(str(word), words, n=1)
    return f"did you mean {found[0]}?" if found else f"known: {', '.join(words)}"


def number_hint(text: str) -> str:
    """Return how to write a text that was meant as a number, or '' if it is none."""
    try:
        number = float(text)
    except ValueError:
        return ""
    match = EXPONENT.fullmatch(text.strip())
    if match and math.isfinite(number):
        sign, whole, fraction, exponent_sign, exponent = match.groups()
        dot = "" if fraction else "a dot"
        needs = " and ".join(need for need in (dot, "" if exponent_sign else "a sign") if need)
        written = f"{sign}{whole or '0'}.{fraction or '0'}e{exponent_sign or '+'}{exponent}"
        return f"YAML 1.1 needs {needs}: write {written}" if needs else f"write {written} unquoted"
    return f"write {text.strip()} without quotes"


def shown(value: Any) -> str:
    """Return a value as a complaint shows it."""
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
