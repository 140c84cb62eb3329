"""Agents' logs: every pod of an agent one after the other, several agents at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence

from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.agent_objects import AgentObjects
from deployer.kube.client import Kube
from deployer.kube.logs import follow_log, read_log

LOOK_SECONDS = 2.0

Look = Callable[[str], AgentObjects | None]
Item = tuple[str, str] | BaseException | None


def follow_agents(
    kube: Kube, names: Sequence[str], follow: bool, look: Look
) -> Iterator[tuple[str, str]]:
    """Yield (agent name, line); with `follow` until all agents have ended, across restarts."""
    if not follow:
        for name in names:
            for line in _read_agent(kube, look(name)):
                yield name, line
        return
    lines: queue.Queue[Item] = queue.Queue(maxsize=10_000)
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
            # 400: it has not started; 404: it is gone meanwhile.
            if error.status not in (400, 404):
                raise


def _follow_into(
    kube: Kube, name: str, look: Look, lines: queue.Queue[Item], leaving: threading.Event
) -> None:
    try:
        for line in _follow_agent(kube, name, look, leaving):
            lines.put((name, line))
        lines.put(None)
    except BaseException as error:
        lines.put(error)


def _follow_agent(kube: Kube, name: str, look: Look, leaving: threading.Event) -> Iterator[str]:
    """Yield an agent's lines: its pods in order, each to its end, then those that come after."""
    seen: set[str] = set()
    while not leaving.is_set():
        objects = look(name)
        pods = {pod["metadata"]["name"]: pod for pod in objects.pods} if objects else {}
        for pod in [pod for pod in pods if pod not in seen]:
            seen.add(pod)
            for line in follow_log(kube, pod, goes_on=lambda: not leaving.is_set()):
                if objects and (text := objects.cut(pods[pod], line.text)) is not None:
                    yield text
        # Asked before the pods were read, so that none can have come since.
        if objects is None or (objects.ended and set(pods) <= seen):
            return
        leaving.wait(LOOK_SECONDS)
