"""Formatting of counts, durations and sizes; pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
DURATION_HINT = "write a duration such as 30s, 90m or 2h"
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_SECONDS = 3650 * 86400
# Characters that W&B forbids in an entity or a project, because each is one part of a URL.
FORBIDDEN_IN_NAMES = "/\\#?%:"
# Sequences that end in a letter, such as colours, and those that set a title or a link.
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
# Characters that move the cursor, end a line, or change the text direction.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
EXPONENT = re.compile(r"([-+]?)(\d[\d_]*)?(?:\.(\d*))?[eE]([-+]?)(\d+)")


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun: `1 agent`, `2 agents`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def name_columns(names: Sequence[str], taken: Sequence[str], prefix: str = "config.") -> list[str]:
    columns: list[str] = []
    for name in names:
        while name in taken or name in columns:
            name = prefix + name
        columns.append(name)
    return columns


def format_usd(usd: float) -> str:
    """Format dollars to the cent, and less than ten cents to a tenth of one."""
    return f"${usd:.3f}" if 0 < usd < 0.1 else f"${usd:.2f}"


def format_seconds(seconds: float | None) -> str:
    """Return a duration in words: `8 s`, `4 min`, `2 h 05 min`."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def format_runtime(seconds: float | None) -> str:
    """Return a run's duration: with one decimal below a minute, else like `format_seconds`."""
    if seconds is None or not 0 <= seconds < 59.95:
        return format_seconds(seconds)
    return f"{seconds:.1f} s"


def format_age(seconds: float | None) -> str:
    """Return an age in words; from two days on, in days."""
    days = int((seconds or 0.0) // SECONDS["d"])
    return f"{days} d" if days >= 2 else format_seconds(seconds)


def parse_duration(text: str) -> float:
    """Parse a duration such as `30s`, `90m`, `2h` or `1d` to seconds; raises ValueError.

    It may be zero, and is at most ten years.
    """
    found = DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{text}' is not a duration")
    seconds = float(found.group(1)) * SECONDS[found.group(2)]
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"'{text}' is longer than ten years")
    return seconds


def format_bytes(count: int) -> str:
    """Return a size in words: `812 kB`, `3.4 GB`."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{max(1, round(count / 1000))} kB"


def find_forbidden(name: str) -> str:
    """Return the first forbidden character in the name of an entity or a project, else empty."""
    return next((letter for letter in name if letter in FORBIDDEN_IN_NAMES), "")


def number_hint(text: str) -> str:
    """Return how to write a number that YAML reads as text; empty if it is not a number."""
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


def find_lookalike(word: str) -> tuple[str, str] | None:
    """Return (what a text probably means, how YAML 1.1 writes it); None for other texts."""
    if word in ("None", "nil"):
        return "null", "null"
    if word.lower() in ("inf", "+inf", "-inf", "nan"):
        return "a number", f"{'-' if word[0] == '-' else ''}.{word.lower().lstrip('+-')}"
    if re.fullmatch(r"0o[0-7]+", word):
        return "a number", str(int(word, 8))
    if re.fullmatch(r"[-+]?\d+,\d+", word):
        return "a number", word.replace(",", ".")
    return None


def format_value(value: object) -> str:
    """Return a cell's text: floats with six digits, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    return to_line(str(value))


def strip_colours(text: str) -> str:
    """Return a text without terminal escape sequences."""
    return ESCAPE.sub("", text) if "\x1b" in text else text


def to_line(text: str) -> str:
    """Return a foreign text as one line without terminal control characters."""
    return STEERING.sub(lambda found: repr(found[0])[1:-1], strip_colours(text))


def to_lines(text: str) -> str:
    return "\n".join(map(to_line, text.split("\n")))


def format_parameter(value: object) -> str:
    """Return a parameter for a table: null by name, ambiguous texts in quotes.

    This distinguishes '1' from 1, and a null value from a missing one.
    """
    if value is None:
        return "null"
    if isinstance(value, str) and (number_hint(value) or value in ("", "null", "true", "false")):
        return json.dumps(value)
    return format_value(value)
