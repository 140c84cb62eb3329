"""Logs of agents and pods, live and across cut connections."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.objects import AgentObjects
from deployer.kube.client import Kube
from deployer.kube.failures import CATCHABLE
from deployer.kube.objects import POD

RECONNECT_SECONDS = 1.0
LOOK_SECONDS = 2.0
Look = Callable[[str], AgentObjects | None]
LogItem = tuple[str, str] | BaseException | None


class LogLine(NamedTuple):
    """One line and the node's time stamp (RFC 3339, nanoseconds), which identifies it."""

    time: str
    text: str


def read_log(kube: Kube, pod: str, since: str = "") -> Iterator[LogLine]:
    """Yield the lines of a pod's log that are newer than `since`.

    Raises KubeError: 404 for a deleted pod, 400 for one that has not started.
    """
    yield from _stream(kube, pod, since, follow=False)


def follow_log(
    kube: Kube, pod: str, since: str = "", goes_on: Callable[[], bool] = lambda: True
) -> Iterator[LogLine]:
    """Yield a pod's lines live, until its container has ended or `goes_on` returns False.

    A cut connection is resumed where it was cut; a deleted pod ends the log.
    """
    while goes_on():
        ended = False
        try:
            # Ask before reading, so that everything a container wrote before its end is read.
            found = kube.get(POD, pod)
            ended = found is None or found["status"].get("phase") in ("Succeeded", "Failed")
            for line in _stream(kube, pod, since, follow=not ended):
                since = line.time
                yield line
            if ended:
                return
        except KubeError as error:
            if error.status == 404 or (ended and error.status == 400):
                return  # it is deleted, or ended before it started
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
        return  # a truncated line is sent again
    finally:
        response.close()
        response.release_conn()
    if rest and (last := _parse(rest)).time > since:
        yield last


def _parse(raw: bytes) -> LogLine:
    time_stamp, _, text = raw.decode(errors="replace").rstrip("\r").partition(" ")
    return LogLine(time_stamp, text)


def follow_agents(
    kube: Kube, names: Sequence[str], follow: bool, look: Look
) -> Iterator[tuple[str, str]]:
    """Yield (agent name, line); with `follow` until all agents have ended, across restarts."""
    if not follow:
        for name in names:
            for line in _read_agent(kube, look(name)):
                yield name, line
        return
    lines: queue.Queue[LogItem] = queue.Queue(maxsize=10_000)
    leaving = threading.Event()
    for name in names:
        arguments = (kube, name, look, lines, leaving)
        threading.Thread(target=_follow_into, args=arguments, daemon=True).start()
    going = len(names)
    try:
        while going:
            item = lines.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                going -= 1
            else:
                yield item
    finally:
        leaving.set()


def _read_agent(kube: Kube, objects: AgentObjects | None) -> Iterator[str]:
    for pod in objects.pods if objects else ():
        try:
            for line in read_log(kube, pod["metadata"]["name"]):
                if objects and (text := objects.cut(pod, line.text)) is not None:
                    yield text
        except KubeError as error:
            # 400: it has not started; 404: it was deleted meanwhile.
            if error.status not in (400, 404):
                raise


def _follow_into(
    kube: Kube, name: str, look: Look, lines: queue.Queue[LogItem], leaving: threading.Event
) -> None:
    try:
        for line in _follow_agent(kube, name, look, leaving):
            lines.put((name, line))
        lines.put(None)
    except BaseException as error:
        lines.put(error)


def _follow_agent(kube: Kube, name: str, look: Look, leaving: threading.Event) -> Iterator[str]:
    """Yield an agent's lines: its pods in order, each to its end, then later pods."""
    seen: set[str] = set()
    while not leaving.is_set():
        objects = look(name)
        pods = {pod["metadata"]["name"]: pod for pod in objects.pods} if objects else {}
        for pod in [pod for pod in pods if pod not in seen]:
            seen.add(pod)
            for line in follow_log(kube, pod, goes_on=lambda: not leaving.is_set()):
                if objects and (text := objects.cut(pods[pod], line.text)) is not None:
                    yield text
        # The Job's end was read before its pods, so no pod can be missing.
        if objects is None or (objects.ended and set(pods) <= seen):
            return
        leaving.wait(LOOK_SECONDS)
