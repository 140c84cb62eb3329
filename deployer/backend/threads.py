"""Threads for slow work, of which each key has a share: a flood delays its own key alone.

Python runs one thread at a time, so a key with more of them would not be answered sooner, and the
server's own thread, which takes in everybody's requests, would wait for each of them in turn.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request

P = ParamSpec("P")
Result = TypeVar("Result")

READING, ANSWERING = "reading", "answering"
# Of one key: reading is Python alone, and answers wait for the disk as well. asyncio has five
# threads on one core, starlette forty.
SHARES = {READING: 1, ANSWERING: 4}

# By what the threads do and the key; only those in use.
_shares: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()


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
