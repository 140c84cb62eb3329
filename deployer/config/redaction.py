"""Recognises names of secrets, and redacts their values; pure.

Hyperparameters are not secrets: for `key` and `token` only text values are redacted, so that
`num_tokens: 512` stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any
from urllib.parse import quote, quote_plus

REDACTED = "REDACTED"
# Every value under these names is secret; under the names below, only text is.
ALWAYS = ("password", "passwd", "passphrase", "pwd", "secret", "credential")
KEYS = ("key", "keys", "token", "tokens", "auth", "bearer", "pat", "pass", "authorization")
ENDINGS = ("apikey", "accesskey", "secretkey", "privatekey", "signingkey", "token", "authkey")
CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")
BEARER = re.compile(r"\b([Bb]earer|[Bb]asic)\s+[\w.~+/=-]{6,}")
_TEXT = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
# A name is matched only at its beginning: a line may be a megabyte of letters.
_NAME = r"(?<![\w.-])-{0,2}([A-Za-z_][\w.-]*+)"
ASSIGNED = re.compile(rf"{_NAME}=({_TEXT}|(?:[^\s\"';&|),:]|:(?=\S))+)")
FLAG = re.compile(r"--?([\w.-]+)")
# Program output: `--password x`, `'api_key': 'x'`, `bad token: x`, and well-known key formats.
FLAGGED = re.compile(r"(?<!\S)--?([\w.-]+)\s+([^\s\"'`;&|)}\]$-][^\s\"'`;&|)}\]]*)")
QUOTED = re.compile(rf"([\"'])([\w.-]+)\1\s*:\s*({_TEXT})")
TOLD = re.compile(_NAME + r"(?<!Error):\s+[\"'`]?([^\s\"'`;&|,)}\]]+)")
KNOWN = re.compile(
    r"\b(?:sk-|hf_|gh[opsu]_|github_pat_|glpat-|xox[abp]-|wandb_v\d_)(?=[\w-]*\d)[\w-]{16,}"
)
# Text under such names that is not secret: words of Python and JSON, `</s>`, `[CLS]`; and numbers.
SPECIAL = re.compile(r"None|null|[Tt]rue|[Ff]alse|<.*>|\[\w*\]|")
NUMBER = re.compile(r"-?\d{1,7}(?:\.\d*)?(?:e[+-]?\d+)?")
UNLIKE_WORDS = re.compile(r"(?=\S*[A-Za-z])(?=\S*\d)\S{8,}")
SHORTEST = 4  # minimum length of a value to search for
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@cache
def is_secret_name(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    joined = "".join(words)
    return (
        any(word in KEYS for word in words) or joined.endswith(ENDINGS) or _is_always_secret(joined)
    )


def redact(value: Any) -> Any:
    """Return a copy without the values whose names look like secrets.

    Finds names in mappings, in Kubernetes' {name, value}, in pairs, before `=` and after `--`.
    """
    if isinstance(value, str):
        return redact_text(value)
    if value is None or isinstance(value, bool | int | float):  # most: a sweep has 100,000 of them
        return value
    if isinstance(value, Mapping):
        named = value.get("name")
        if isinstance(named, str) and "value" in value and is_secret_name(named):
            return {**value, "value": _hide(named, value["value"])}
        found = {}
        for key, item in value.items():
            secret = isinstance(key, str) and is_secret_name(key)
            found[key] = _hide(key, item) if secret else redact(item)
        return found
    return _redact_sequence(value) if isinstance(value, Sequence) else value


def redact_text(text: str, hidden: Iterable[str] = ()) -> str:
    """Return a text without `hidden` values, credentials, and values after secret names.

    After `name:` in prose, only values that look like secrets are redacted: `unknown key: lr`
    stays.
    """
    for value in sorted(hidden, key=len, reverse=True):
        text = text.replace(value, REDACTED)
    return _redact_credentials(text)


@lru_cache(maxsize=4096)
def _redact_credentials(text: str) -> str:
    text = BEARER.sub(rf"\1 {REDACTED}", KNOWN.sub(REDACTED, CREDENTIALS.sub("", text)))
    for pattern, name in ((FLAGGED, 1), (QUOTED, 2), (TOLD, 1), (ASSIGNED, 1)):
        text = pattern.sub(partial(_hide_after, pattern, name), text)
    return text


def find_hidden(value: Any) -> frozenset[str]:
    """Return the texts that `redact` hides in a value, as programs print them.

    Texts that are too short to search for are left out.
    """
    forms = (form for text in _list_hidden(value, redact(value)) for form in _list_forms(text))
    return frozenset(form for form in forms if len(form) >= SHORTEST)


def _hide_after(pattern: re.Pattern[str], name: int, found: re.Match[str]) -> str:
    """Return the match, with its value replaced if its name is a secret's."""
    named, quoted = found[name], found[name + 1]
    text = quoted[1:-1] if quoted[0] in "\"'" else quoted
    if not is_secret_name(named) or text.startswith("$"):
        return found[0]
    if not _is_always_secret(_join(named)):
        prose = pattern is TOLD and not UNLIKE_WORDS.fullmatch(text)
        if prose or SPECIAL.fullmatch(text) or NUMBER.fullmatch(text):
            return found[0]
    start = found.start(name + 1) - found.start() + (len(quoted) - len(text)) // 2
    return f"{found[0][:start]}{REDACTED}{found[0][start + len(text) :]}"


def _list_forms(text: str) -> Iterator[str]:
    """Yield a text verbatim, escaped as in Python, JSON and URLs, and each of its lines."""
    yield from (text, repr(text)[1:-1], quote(text, safe=""), quote_plus(text))
    yield from (json.dumps(text, ensure_ascii=kept)[1:-1] for kept in (True, False))
    yield from map(str.strip, text.splitlines())


def _list_hidden(value: Any, redacted: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _list_hidden(item, redacted[key])
    elif isinstance(value, list | tuple):
        for item, kept in zip(value, redacted, strict=True):
            yield from _list_hidden(item, kept)
    elif redacted == REDACTED != value:
        yield str(value)


def _redact_sequence(value: Sequence[Any]) -> list[Any]:
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
        found.append(REDACTED if hidden else redact(item))
        previous = item if isinstance(item, str) else ""
    return found


def _hide(name: str, value: Any) -> Any:
    """Replace all nested values with a placeholder; keep the structure."""
    if isinstance(value, Mapping):
        return {key: _hide(name, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(name, item) for item in value]
    always = _is_always_secret(_join(name))
    if value is None or isinstance(value, bool) or not (always or isinstance(value, str)):
        return value
    return value if not always and SPECIAL.fullmatch(value) else REDACTED


def _join(name: str) -> str:
    return "".join(word.lower() for word in _WORDS.findall(name))


def _is_always_secret(joined: str) -> bool:
    return any(word in joined for word in ALWAYS)
