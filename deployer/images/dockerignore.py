"""Which files a `.dockerignore` keeps out of a build; pure.

Source: docs.docker.com/build/concepts/context, and moby/patternmatcher for what it leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One line; the last one that matches a file decides."""

    pattern: re.Pattern[str]
    keeps: bool
    parts: tuple[str, ...]


def parse_dockerignore(text: str) -> tuple[Rule, ...]:
    """Read the lines of a `.dockerignore`."""
    lines = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
    return tuple(_parse_line(line) for line in lines if line and not line.startswith("#"))


def is_ignored(rules: Sequence[Rule], path: str) -> bool:
    """Tell whether a file stays outside; a pattern that names a folder means all that is in it."""
    parts = path.split("/")
    names = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    ignored = False
    for rule in rules:
        if ignored == rule.keeps and any(rule.pattern.fullmatch(name) for name in names):
            ignored = not rule.keeps
    return ignored


def is_hopeless(rules: Sequence[Rule], folder: str) -> bool:
    """Tell whether everything in a folder is ignored, so that it need not be walked."""
    return is_ignored(rules, folder) and not any(
        rule.keeps and _may_match_inside(rule.parts, folder.split("/")) for rule in rules
    )


def _may_match_inside(parts: Sequence[str], folders: Sequence[str]) -> bool:
    for part, folder in zip(parts, folders, strict=False):
        if "**" in part:
            return True
        if not re.fullmatch(_translate(part), folder):
            return False
    return True


def _parse_line(line: str) -> Rule:
    keeps = line.startswith("!")
    words = line.removeprefix("!").strip().split("/")
    parts = tuple(word for word in words if word not in ("", "."))
    return Rule(re.compile(_translate("/".join(parts)), re.DOTALL), keeps, parts)


def _translate(pattern: str) -> str:
    """Return the regular expression: `**` crosses folders, `*` and `?` do not."""
    done, rest = "", pattern
    while rest:
        if rest.startswith("**"):
            rest = rest[2:]
            done += "(.*/)?" if rest.startswith("/") else ".*"
            rest = rest.removeprefix("/")
        elif found := re.match(r"\[\^?[^\]/]+\]", rest):
            done, rest = done + found[0], rest[found.end() :]
        else:
            escaped = rest[0] == "\\" and len(rest) > 1
            letter = rest[1] if escaped else rest[0]
            wild = {} if escaped else {"*": "[^/]*", "?": "[^/]"}
            done, rest = done + wild.get(letter, re.escape(letter)), rest[1 + escaped :]
    return done
