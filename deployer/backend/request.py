"""A request as it comes: JSON within limits, a share of threads for each key, one refusal."""

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

MOST_LEVELS = 100  # more than any client nests, and few enough for what walks through a value
LARGEST_INT = 2**31 - 1  # GraphQL's
SURROGATES = ("\\ud", "\\uD")
P = ParamSpec("P")
Result = TypeVar("Result")
READING, ANSWERING = "reading", "answering"
# Of one key: reading is Python alone, and answers wait for the disk as well. asyncio has five
# threads on one core, starlette forty.
SHARES = {READING: 1, ANSWERING: 4}
# By what the threads do and the key; only those in use.
_shares: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()


class Refusal(Exception):
    """Refuse a request for good with a 4xx status.

    Never 409: the SDK retries it. Passing troubles are 503 or 507 and never raised as this, but for
    a `wandb.init` that has to wait until it is known what becomes of it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class NoSpace(OSError):
    """The disk has no room for what is announced; the client tries again later."""


def is_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return isinstance(error, NoSpace) or error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def describe_passing(error: BaseException) -> str:
    """Say what is in the way now and may be gone when it is tried again."""
    if isinstance(error, NoSpace):
        return f"the disk of the backend has too little room, more may help: {error}"
    if is_full(error):
        return "the disk of the backend is full; what waits is written once there is room again"
    return f"the backend's storage is away, trying again may help: {error}"


def not_found(what: str) -> Refusal:
    return Refusal(404, f"{what} not found")


def parse_json(text: str, what: str) -> Any:
    """Parse JSON, in which NaN and Infinity are allowed; refuse anything else with 400.

    Lone surrogates are replaced, since UTF-8 cannot encode them.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise _too_deep(what) from error
    except ValueError as error:
        raise Refusal(400, f"{what} is not JSON: {error}") from error
    # Most texts have fewer brackets than levels are allowed.
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
        return parse_object(text, "what is stored")
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
    """Do `work` in a thread, as soon as the request's key uses less than its share of them."""
    async with _find_share(ANSWERING, http):
        return await run_in_threadpool(work, *arguments, **named)


async def read_in_thread(
    http: Request, work: Callable[P, Result], *arguments: P.args, **named: P.kwargs
) -> Result:
    """Do the same in other threads, so that slow answers delay no agent's heartbeat."""
    async with _find_share(READING, http):
        return await asyncio.to_thread(work, *arguments, **named)


# Threads for slow work, of which each key has a share: a flood delays its own key alone. Python
# runs one thread at a time, so a key with more of them would not be answered sooner, and the
# server's own thread, which takes in everybody's requests, would wait for each of them in turn.


def _find_share(threads: str, http: Request) -> asyncio.Semaphore:
    return _shares.setdefault(
        (threads, find_asker(http.headers)), asyncio.Semaphore(SHARES[threads])
    )


def find_asker(headers: Headers) -> str:
    """Return the key, or the session, for which a request is counted."""
    return find_key(headers) or headers.get("cookie", "")


def find_key(headers: Headers) -> str:
    """Return the key of `Authorization: Basic base64("api:" + key)`, or of a bearer token."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value
    try:
        return base64.b64decode(value).decode().partition(":")[2]
    except ValueError:
        return ""
