"""Logs are followed across restarts and faults: each line once, in order, up to the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import pytest
from urllib3.exceptions import ProtocolError

from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.agent_logs import read_agent_log
from deployer.executors.kubernetes.agents.agent_objects import AgentObjects
from deployer.executors.logs import LogPart, read_logs
from deployer.kube.client import Kube
from deployer.kube.names import AGENTS_ANNOTATION

RUNNING, FAILED, SUCCEEDED = ("Running", "Failed", "Succeeded")


class Answer:
    """An open HTTP response; one that is `cut` breaks off in its last line."""

    def __init__(self, content: bytes, cut: bool) -> None:
        self.content, self.cut = content, cut

    def stream(self, amt: int) -> Iterator[bytes]:
        assert amt
        yield self.content[:-3] if self.cut else self.content
        if self.cut:
            raise ProtocolError

    def close(self) -> None: ...

    def release_conn(self) -> None: ...


class Cluster:
    """An agent whose pods print what `steps` say; the next step comes with each pause."""

    def __init__(self, *steps: Callable[[Cluster], None], annotations: Mapping[str, str]) -> None:
        self.steps, self.annotations = list(steps), dict(annotations)
        self.phases: dict[str, str] = {}
        self.logs: dict[str, str] = {}
        self.fault: KubeError | None = None
        self.cut = False
        self.asked: list[str] = []
        self.pauses: list[float] = []
        self.go_on(0.0)

    def go_on(self, _: float) -> None:
        self.fault, self.cut = None, False
        self.steps.pop(0)(self)

    def write(self, pod: str, text: str, phase: str = RUNNING) -> None:
        self.logs[pod] = self.logs.get(pod, "") + text
        self.phases[pod] = phase

    def open_log(self, pod: str, query: Mapping[str, str]) -> Answer:
        """Answer as a kubelet does: `sinceTime` is cut down to whole seconds."""
        assert query["timestamps"] == "true"
        self.asked.append(pod)
        if self.fault:
            raise self.fault
        second = query.get("sinceTime", "")[:19]
        lines = [line for line in self.logs[pod].splitlines(keepends=True) if line[:19] >= second]
        return Answer("".join(lines).encode(), self.cut)

    def read_log(self, name: str, since: Any, last: bool) -> LogPart:
        pods: list[Any] = [
            {
                "metadata": {"name": pod, "annotations": self.annotations},
                "status": {"phase": phase},
            }
            for pod, phase in self.phases.items()
        ]
        over = SUCCEEDED in self.phases.values()
        status = {"conditions": [{"type": "Complete", "status": "True"}]} if over else {}
        job: Any = {"metadata": {}, "status": status}
        objects = AgentObjects(name, job, tuple(pods))
        return read_agent_log(cast(Kube, self), objects, since, last, self.pauses.append)


def stamp(time: float, words: str) -> str:
    """Return lines with the same time stamp, which is in seconds."""
    return "".join(f"2026-01-01T00:00:{time:012.9f}Z {word}\n" for word in words.split())


def follow(*steps: Callable[[Cluster], None], names: Sequence[str] = ("a",)) -> list[Any]:
    together = {AGENTS_ANNOTATION: " ".join(names)} if len(names) > 1 else {}
    cluster = Cluster(*steps, annotations=together)
    lines = list(read_logs(cluster.read_log, names, follow=True, sleep=cluster.go_on))
    assert not cluster.steps
    assert sum(cluster.pauses) >= 0.0999 * len(cluster.asked)  # ten requests a second at most
    return lines if len(names) > 1 else [line for _, line in lines]


def fail(status: int) -> Callable[[Cluster], None]:
    def step(cluster: Cluster) -> None:
        cluster.fault = KubeError("the server's words", status=status)

    return step


def break_off(cluster: Cluster) -> None:
    cluster.cut = True
    cluster.write("p1", stamp(7, "cut"))


def end(cluster: Cluster) -> None:
    """End the second pod, and a third one that nobody has seen at work."""
    cluster.write("p2", stamp(9, "end"), FAILED)
    cluster.write("p3", stamp(9, "done"), SUCCEEDED)


def test_each_line_is_there_once_across_restarts_and_faults() -> None:
    lines = follow(
        lambda cluster: cluster.write("p1", "", "Pending"),
        fail(400),
        lambda cluster: cluster.write("p1", stamp(1.5, "one same same")),
        # Equal stamps, a line that was there before, and an older stamp: all were written later.
        lambda cluster: cluster.write("p1", stamp(1.5, "same two") + stamp(1.4, "late")),
        lambda _: None,
        lambda cluster: cluster.write("p1", stamp(1.4, "later") + stamp(3, "three")),
        fail(503),
        break_off,
        break_off,
        lambda cluster: cluster.write("p1", stamp(8, "last words")[:-1], FAILED),
        lambda cluster: cluster.write("p2", stamp(8, "again")),
        end,
    )
    said = "one same same same two late later three cut cut last words again end done"
    assert " ".join(lines) == said


def test_agents_of_a_pod_have_their_own_lines() -> None:
    both = stamp(1, "[a] [b] [a]").replace("]\n", "] x\n")
    assert follow(
        lambda cluster: cluster.write("p1", both),
        lambda cluster: cluster.write("p1", "", SUCCEEDED),
        names=("a", "b"),
    ) == [("a", "x"), ("a", "x"), ("b", "x")]


def test_what_is_there_is_read_to_the_last_byte_and_pods_that_are_gone_are_no_error() -> None:
    def begin(cluster: Cluster) -> None:
        cluster.write("p1", stamp(1, "one two")[:-1])

    cluster = Cluster(begin, fail(404), fail(500), annotations={})
    assert list(read_logs(cluster.read_log, ["a"], follow=False)) == [("a", "one"), ("a", "two")]
    cluster.go_on(0.0)
    assert list(read_logs(cluster.read_log, ["a"], follow=False)) == []
    cluster.go_on(0.0)
    with pytest.raises(KubeError):
        list(read_logs(cluster.read_log, ["a"], follow=False))


def test_an_error_that_does_not_pass_ends_it() -> None:
    with pytest.raises(KubeError):
        follow(lambda cluster: cluster.write("p1", stamp(1, "one")), fail(403))
