"""Sends the same request for many objects, concurrently and with a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
THREADS = 16  # as many connections as the client keeps


def do_all(act: Callable[[T], None], items: Sequence[T]) -> None:
    """Call `act` for each item; the first failure is raised once no call is under way any more."""
    if len(items) <= 1:
        for item in items:
            act(item)
        return
    with ThreadPoolExecutor(max_workers=min(THREADS, len(items))) as pool:
        calls = [pool.submit(act, item) for item in items]
        try:
            for call in calls:
                call.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
