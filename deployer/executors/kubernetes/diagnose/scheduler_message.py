"""Reads the scheduler's sentence about a pod that no node takes; pure.

It is the only place where a tenant who may not list nodes learns of them. Each node is counted
under the first thing that keeps the pod off it, in the order of the scheduler's plugins
(pkg/scheduler/framework/plugins; `FitError.Error` in pkg/scheduler/framework/types.go writes the
sentence). The words are those of Kubernetes 1.24 to 1.37.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum


class Barrier(IntEnum):
    """What keeps a pod off a node; the further it came with that node, the greater."""

    OTHER = 0
    CORDONED = 1
    NODE_LOST = 2
    PRESSURE = 3
    TAINT = 4
    SELECTOR = 5
    INSUFFICIENT = 6
    DEVICES = 7
    CLAIM_ELSEWHERE = 8
    CLAIM_UNBOUND = 9


@dataclass(frozen=True)
class Obstacle:
    """So many nodes keep a pod off; `detail` is the taint or the resource."""

    count: int
    barrier: Barrier
    detail: str = ""
    words: str = ""


@dataclass(frozen=True)
class Refusal:
    """The sentence taken apart; `nodes` is how many there are."""

    nodes: int
    obstacles: tuple[Obstacle, ...]

    @property
    def nearest(self) -> Obstacle | None:
        """Return what keeps the pod off the nodes with which it came furthest."""
        return max(self.obstacles, key=lambda one: one.barrier, default=None)


HEAD = re.compile(r"^(?P<free>\d+)/(?P<all>\d+) nodes are available(?: \(.*?\))?: ?")
PREEMPTION = re.compile(r"\.? *preemption: .*$", re.DOTALL)
# A count begins a part; taints and names of claims have commas in them, too.
PARTS = re.compile(r"(?:^|[,.]\s+)(?=\d+ \S)")
PRESSURE_TAINT = re.compile(r"node\.kubernetes\.io/((?:memory|disk|pid)-pressure)")
LOST_TAINT = re.compile(r"node\.kubernetes\.io/(unreachable|not-ready)")
CORDON_TAINT = "node.kubernetes.io/unschedulable"
# 1.22 to 1.24 say `had taint {a: b}, that the pod didn't tolerate`, later ones `had untolerated
# taint {a: b}`, and `had untolerated taint(s)` from 1.34 on where nodes differ in them.
TAINT = re.compile(r"had (?:untolerated )?taint(?:\(s\)| \{(?P<taint>[^}]*)\})")
# Before 1.20 `didn't match node selector`.
SELECTOR = re.compile(r"didn't match (?:Pod's node affinity(?:/selector)?|node selector)")
INSUFFICIENT = re.compile(r"(?:Insufficient (?P<resource>\S+)|(?P<pods>Too many pods))")
# Dynamic Resource Allocation, which serves GPUs from 1.36 on.
DEVICES = re.compile(r"cannot allocate all claims")
ELSEWHERE = re.compile(r"had volume node affinity conflict|didn't match PersistentVolume's node")
UNBOUND = re.compile(
    r"unbound immediate PersistentVolumeClaims|didn't find available persistent volumes"
)
CORDONED = re.compile(r"were unschedulable")


def parse_message(message: str) -> Refusal | None:
    """Return the sentence taken apart; None if it is not about nodes."""
    head = HEAD.match(message)
    if not head:
        return None
    body = PREEMPTION.sub("", message[head.end() :]).strip().rstrip(".")
    parts = [part for part in PARTS.split(body) if part]
    nodes = int(head["all"])
    return Refusal(nodes, tuple(_parse_part(part, nodes) for part in parts))


def _parse_part(part: str, nodes: int) -> Obstacle:
    number, _, words = part.partition(" ")
    # Some are said of the pod, without a count.
    count, words = (int(number), words) if number.isdigit() else (nodes, part)
    words = words.strip(" ,.")
    if taint := TAINT.search(words):
        return _parse_taint(count, taint["taint"] or "", words)
    if resource := INSUFFICIENT.search(words):
        detail = resource["resource"] or "pods"
        return Obstacle(count, Barrier.INSUFFICIENT, detail.strip(",."), words)
    for pattern, barrier in (
        (SELECTOR, Barrier.SELECTOR),
        (DEVICES, Barrier.DEVICES),
        (ELSEWHERE, Barrier.CLAIM_ELSEWHERE),
        (UNBOUND, Barrier.CLAIM_UNBOUND),
        (CORDONED, Barrier.CORDONED),
    ):
        if pattern.search(words):
            return Obstacle(count, barrier, "", words)
    return Obstacle(count, Barrier.OTHER, "", words)


def _parse_taint(count: int, taint: str, words: str) -> Obstacle:
    key, _, value = taint.partition(":")
    shown = f"{key.strip()}={value.strip()}" if value.strip() else key.strip()
    if found := PRESSURE_TAINT.search(taint):
        return Obstacle(count, Barrier.PRESSURE, found[1].replace("-", " "), words)
    if LOST_TAINT.search(taint):
        return Obstacle(count, Barrier.NODE_LOST, "", words)
    if CORDON_TAINT in taint:
        return Obstacle(count, Barrier.CORDONED, "", words)
    return Obstacle(count, Barrier.TAINT, shown, words)
