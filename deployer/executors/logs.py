"""Agents' logs, read part by part: one loop for all executors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from deployer.errors import DeployerError

POLL_SECONDS = 1.0


class LogPart(NamedTuple):
    """Lines of an agent's log. `since` marks where the next part begins, in the executor's own way.

    `more`: the next part is there already. `ended`: no more lines will come.
    """

    lines: Sequence[str]
    since: Any = None
    more: bool = False
    ended: bool = False


def read_logs(
    read_log: Callable[[str, Any, bool], LogPart],
    names: Sequence[str],
    follow: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[str, str]]:
    """Yield (agent name, line) as an executor's `read_log` returns them.

    With `follow` until all agents have ended, and an error that passes is waited out.
    """
    marks: dict[str, Any] = dict.fromkeys(names)
    while marks:
        for name in list(marks):
            more = True
            while more:
                try:
                    part = read_log(name, marks[name], not follow)
                except DeployerError as error:
                    if follow and error.passing:
                        break
                    raise
                yield from ((name, line) for line in part.lines)
                marks[name], more = part.since, part.more
                if part.ended or not (follow or more):
                    del marks[name]
        if marks:
            sleep(POLL_SECONDS)
