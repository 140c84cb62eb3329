"""Which names are those of secrets, and values without them; pure.

Hyperparameters are no secrets: of `key` and `token` only texts are taken for one, so that
`num_tokens: 512` stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

REDACTED = "REDACTED"
# Whatever these name is secret; what those below name is, if it is text.
ALWAYS = ("password", "passwd", "passphrase", "pwd", "secret", "credential")
KEYS = ("key", "keys", "token", "tokens", "auth", "bearer", "pat", "pass", "authorization")
ENDINGS = ("apikey", "accesskey", "secretkey", "privatekey", "signingkey", "token", "authkey")
# Kubernetes' own fields, whose values are references and settings.
STRUCTURE = frozenset(
    (
        *("key", "secret", "secretKeyRef", "secretName", "secretRef", "imagePullSecrets"),
        *("automountServiceAccountToken", "topologyKey", "serviceAccountToken", "secrets"),
    )
)
CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")
BEARER = re.compile(r"\b([Bb]earer|[Bb]asic)\s+[\w.~+/=-]{6,}")
ASSIGNED = re.compile(r"([A-Za-z_][\w.-]*)=(\"[^\"]*\"|'[^']*'|[^\s\"';&|)]+)")
FLAG = re.compile(r"--?([\w.-]+)")
# In code: a quoted text after a name, or a line of a file of variables.
LITERAL = re.compile(r"([A-Za-z_][\w-]*)[\"']?\s*[=:]\s*[\"'][^\"'\s]{6,}[\"']")
VARIABLE = re.compile(r"^[-+ ]?\s*(?:export\s+)?([A-Z][A-Z0-9_]*)=[^\s\"']{6,}")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def is_secret_name(name: str) -> bool:
    """Tell whether a text of this name may be a key, a token or a password."""
    words = [word.lower() for word in _WORDS.findall(name)]
    joined = "".join(words)
    return (
        any(word in KEYS for word in words) or joined.endswith(ENDINGS) or _is_always_secret(joined)
    )


def redact(value: Any, structure: frozenset[str] = frozenset()) -> Any:
    """Return a copy without the values whose names look like secrets.

    Names stand in mappings, in Kubernetes' {name, value}, in pairs, before `=` and after `--`.
    `structure` are fields that only look so.
    """
    if isinstance(value, Mapping):
        return _redact_mapping(value, structure)
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Sequence):
        return _redact_sequence(value, structure)
    return value


def redact_text(text: str) -> str:
    """Return a text without credentials in addresses, after `Bearer`, and in assignments."""
    text = BEARER.sub(rf"\1 {REDACTED}", CREDENTIALS.sub("", text))

    def replace(found: re.Match[str]) -> str:
        secret = is_secret_name(found[1]) and not found[2].startswith("$")
        return f"{found[1]}={REDACTED}" if secret else found[0]

    return ASSIGNED.sub(replace, text)


def find_secret(code: str) -> str:
    """Return the name of the first thing in code that looks like a secret; empty if none does."""
    for line in code.splitlines():
        found = [*VARIABLE.finditer(line), *LITERAL.finditer(line)]
        for one in found:
            # `sorted(key="accuracy")` is how Python names what it sorts by.
            if is_secret_name(one[1]) and one[1] != "key":
                return one[1]
        if CREDENTIALS.search(line):
            return "an address with credentials"
    return ""


def _redact_mapping(value: Mapping[Any, Any], structure: frozenset[str]) -> dict[Any, Any]:
    named = value.get("name")
    if isinstance(named, str) and "value" in value and is_secret_name(named):
        return {**value, "value": _hide(named, value["value"])}
    found = {}
    for key, item in value.items():
        secret = isinstance(key, str) and key not in structure and is_secret_name(key)
        found[key] = _hide(key, item) if secret else redact(item, structure)
    return found


def _redact_sequence(value: Sequence[Any], structure: frozenset[str]) -> list[Any]:
    if len(value) == 2 and isinstance(value[0], str) and not isinstance(value[1], Mapping):
        name = value[0].lstrip("-")
        if is_secret_name(name) and not isinstance(value[1], list | tuple):
            return [value[0], _hide(name, value[1])]
    found: list[Any] = []
    previous = ""
    for item in value:
        flag = FLAG.fullmatch(previous)
        after = flag and is_secret_name(flag[1]) and isinstance(item, str)
        hidden = after and not item.startswith(("-", "$"))
        found.append(REDACTED if hidden else redact(item, structure))
        previous = item if isinstance(item, str) else ""
    return found


def _hide(name: str, value: Any) -> Any:
    """Replace every value inside by a word, and keep the shape."""
    if isinstance(value, Mapping):
        return {key: _hide(name, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(name, item) for item in value]
    always = _is_always_secret("".join(word.lower() for word in _WORDS.findall(name)))
    if value is None or isinstance(value, bool) or not (always or isinstance(value, str)):
        return value
    return REDACTED


def _is_always_secret(joined: str) -> bool:
    return any(word in joined for word in ALWAYS)
