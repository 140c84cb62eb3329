"""Basics of requests: JSON with limits, a share of threads for each key, refusals."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import sqlite3
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request

MOST_LEVELS = 100  # more than any client nests, and safe for recursive functions
LARGEST_INT = 2**31 - 1  # GraphQL's
SURROGATES = ("\\ud", "\\uD")
P = ParamSpec("P")
Result = TypeVar("Result")
READING, ANSWERING = "reading", "answering"
# Threads per key: reading is pure Python, answers also wait for the disk. asyncio has five threads
# on one core, starlette forty.
SHARES = {READING: 1, ANSWERING: 4}
# By the threads' purpose and the key; only those in use.
_shares: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()


class Refusal(Exception):
    """A permanent refusal of a request, with a 4xx status.

    Never 409, which the SDK retries. Transient errors are 503 or 507 and never raised as this,
    except for a `wandb.init` that must retry until its run is decided.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class NoSpace(OSError):
    """The disk has too little space for an upload; the client retries later."""


def is_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return isinstance(error, NoSpace) or error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def describe_passing(error: BaseException) -> str:
    """Return the message for a transient error of the backend's storage."""
    if isinstance(error, NoSpace):
        return f"the backend's disk has too little free space; make room: {error}"
    if is_full(error):
        return "the backend's disk is full; pending changes are written once there is free space"
    return f"the backend's storage is unavailable; try again: {error}"


def not_found(what: str) -> Refusal:
    return Refusal(404, f"{what} not found")


def parse_json(text: str, what: str) -> Any:
    """Parse JSON, including NaN and Infinity; refuse invalid JSON with 400.

    Replaces lone surrogates, since UTF-8 cannot encode them.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise _too_deep(what) from error
    except ValueError as error:
        raise Refusal(400, f"{what} is not JSON: {error}") from error
    # A fast check first: most texts have fewer brackets than the limit.
    if text.count("[") + text.count("{") > MOST_LEVELS and _is_deep(value):
        raise _too_deep(what)
    return repair(value) if any(half in text for half in SURROGATES) else value


def parse_object(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON object; refuse anything else with 400."""
    value = parse_json(text, what)
    if not isinstance(value, dict):
        raise Refusal(400, f"{what} is not a JSON object")
    return value


def read_object(text: str) -> dict[str, Any] | None:
    """Parse a stored JSON object; None for anything else."""
    try:
        return parse_object(text, "the stored value")
    except Refusal:
        return None


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(one, dict | list) for one in level)


def _too_deep(what: str) -> Refusal:
    return Refusal(400, f"{what} is nested more than {MOST_LEVELS} levels deep")


def repair(value: Any) -> Any:
    """Replace lone surrogates in a value's texts."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {repair(key): repair(inner) for key, inner in value.items()}
    return [repair(inner) for inner in value] if isinstance(value, list) else value


async def answer_in_thread(
    http: Request, work: Callable[P, Result], *arguments: P.args, **named: P.kwargs
) -> Result:
    """Run `work` in a thread, once the request's key uses less than its share of threads."""
    async with _find_share(ANSWERING, http):
        return await run_in_threadpool(work, *arguments, **named)


async def read_in_thread(
    http: Request, work: Callable[P, Result], *arguments: P.args, **named: P.kwargs
) -> Result:
    """Like `answer_in_thread`, but in other threads: slow answers delay no agent's heartbeat."""
    async with _find_share(READING, http):
        return await asyncio.to_thread(work, *arguments, **named)


# Threads for slow work; each key has a share, so that a flood of requests delays only its own key.
# Python runs one thread at a time, so more threads would not answer a key sooner, but would delay
# the server's main thread, which receives all requests.


def _find_share(threads: str, http: Request) -> asyncio.Semaphore:
    return _shares.setdefault(
        (threads, find_asker(http.headers)), asyncio.Semaphore(SHARES[threads])
    )


def find_asker(headers: Headers) -> str:
    """Return the key or session whose share of threads a request uses."""
    return find_key(headers) or headers.get("cookie", "")


def find_key(headers: Headers) -> str:
    """Return the key from `Authorization: Basic base64("api:" + key)` or a bearer token."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value
    try:
        return base64.b64decode(value).decode().partition(":")[2]
    except ValueError:
        return ""
