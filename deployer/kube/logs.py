"""Pods' logs, live and across cut connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from deployer.errors import KubeError
from deployer.kube.client import Kube
from deployer.kube.failures import CATCHABLE
from deployer.kube.kinds import POD

RECONNECT_SECONDS = 1.0


class LogLine(NamedTuple):
    """One line and the node's time stamp (RFC 3339, nanoseconds), by which lines are told apart."""

    time: str
    text: str


def read_log(kube: Kube, pod: str, since: str = "") -> Iterator[LogLine]:
    """Yield the lines of a pod's log that are newer than `since`.

    Raises KubeError: 404 for a pod that is gone, 400 for one that has not started.
    """
    yield from _stream(kube, pod, since, follow=False)


def follow_log(
    kube: Kube, pod: str, since: str = "", goes_on: Callable[[], bool] = lambda: True
) -> Iterator[LogLine]:
    """Yield a pod's lines as they come, until its container has ended or `goes_on` says no.

    A cut connection is made anew where it was cut; a pod that is gone ends the log.
    """
    while goes_on():
        ended = False
        try:
            # Asked before reading: what a container wrote until its end is then all there.
            ended = _has_ended(kube, pod)
            for line in _stream(kube, pod, since, follow=not ended):
                since = line.time
                yield line
            if ended:
                return
        except KubeError as error:
            if error.status == 404 or (ended and error.status == 400):
                return  # it is gone, or has ended before it started
            if not error.passing and error.status != 400:
                raise
        time.sleep(RECONNECT_SECONDS)


def _stream(kube: Kube, pod: str, since: str, follow: bool) -> Iterator[LogLine]:
    query = {"timestamps": "true", "follow": "true" if follow else "false"}
    if since:
        query["sinceTime"] = since
    response = kube.open_log(pod, query)
    rest = b""
    try:
        for chunk in response.stream(amt=1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line for raw in lines if (line := _parse(raw)).time > since)
    except CATCHABLE:
        if not follow:
            raise
        return  # a line that was cut off comes again
    finally:
        response.close()
        response.release_conn()
    if rest and (last := _parse(rest)).time > since:
        yield last


def _parse(raw: bytes) -> LogLine:
    time_stamp, _, text = raw.decode(errors="replace").rstrip("\r").partition(" ")
    return LogLine(time_stamp, text)


def _has_ended(kube: Kube, pod: str) -> bool:
    found = kube.get(POD, pod)
    return found is None or found["status"].get("phase") in ("Succeeded", "Failed")
