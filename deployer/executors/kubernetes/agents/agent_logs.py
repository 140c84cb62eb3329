"""An agent's log: the logs of its pods, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.agent_objects import AgentObjects
from deployer.executors.logs import LogPart
from deployer.kube.client import Kube
from deployer.kube.logs import PodLog, read_log
from deployer.kube.objects import ENDED_PHASES

PAUSE_SECONDS = 0.1  # ten requests a second, however many agents there are

# By pod, what was seen of its log; None once it was read to its end.
Marks = Mapping[str, Sequence[bytes] | None]


def read_agent_log(
    kube: Kube,
    objects: AgentObjects | None,
    since: Marks | None,
    last: bool,
    sleep: Callable[[float], None],
) -> LogPart:
    """Return the next part of an agent's log.

    `objects` was read before: the log of a pod that had ended by then is complete.
    """
    if objects is None:
        return LogPart((), ended=True)
    marks, lines = dict(since or {}), []
    for pod in objects.pods:
        name = pod["metadata"]["name"]
        seen = marks.get(name, ())
        if seen is None:
            continue
        over = pod["status"].get("phase") in ENDED_PHASES
        sleep(PAUSE_SECONDS)
        try:
            found = read_log(kube, name, seen, last or over)
        except KubeError as error:
            # 400: it has not started; 404: it is gone meanwhile.
            if error.status not in (400, 404):
                raise
            found = PodLog((), seen)
        lines += [text for line in found.lines if (text := objects.cut(pod, line)) is not None]
        marks[name] = None if over and not found.cut else found.seen
        if found.cut:
            return LogPart(lines, marks, more=True)
    read = all(marks[pod["metadata"]["name"]] is None for pod in objects.pods)
    return LogPart(lines, marks, ended=read and objects.ended)
