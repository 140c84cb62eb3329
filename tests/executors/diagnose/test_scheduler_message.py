"""The scheduler's sentences, as each version of Kubernetes writes them, taken apart."""

from __future__ import annotations

import pytest

from deployer.executors.kubernetes.diagnose.scheduler_message import Barrier, parse_message

CASES = {
    # 1.24: taints with `that the pod didn't tolerate`, no word on preemption.
    "1.24 taint": (
        "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had taint "
        "{nvidia.com/gpu: present}, that the pod didn't tolerate.",
        [(1, Barrier.INSUFFICIENT, "nvidia.com/gpu"), (2, Barrier.TAINT, "nvidia.com/gpu=present")],
    ),
    "1.25": (
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) "
        "had untolerated taint {node-role.kubernetes.io/control-plane: }. preemption: 0/2 nodes "
        "are available: 2 Preemption is not helpful for scheduling.",
        [(1, Barrier.SELECTOR, ""), (1, Barrier.TAINT, "node-role.kubernetes.io/control-plane")],
    ),
    "1.28": (
        "0/5 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 2 Insufficient "
        "memory. preemption: 0/5 nodes are available: 1 Preemption is not helpful for scheduling, "
        "4 No preemption victims found for incoming pod..",
        [
            (1, Barrier.CORDONED, ""),
            (2, Barrier.INSUFFICIENT, "cpu"),
            (2, Barrier.INSUFFICIENT, "memory"),
        ],
    ),
    "1.34 taints": (
        "0/2 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s). no new "
        "claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful "
        "for scheduling.",
        [(1, Barrier.INSUFFICIENT, "pods"), (1, Barrier.TAINT, "")],
    ),
    "pressure": (
        "0/2 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/"
        "disk-pressure: }, 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.",
        [(1, Barrier.PRESSURE, "disk pressure"), (1, Barrier.NODE_LOST, "")],
    ),
    "unbound": (
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        [(1, Barrier.CLAIM_UNBOUND, "")],
    ),
    "elsewhere": (
        "0/3 nodes are available: 3 node(s) had volume node affinity conflict.",
        [(3, Barrier.CLAIM_ELSEWHERE, "")],
    ),
    "1.34 elsewhere": (
        "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity.",
        [(3, Barrier.CLAIM_ELSEWHERE, "")],
    ),
    "unknown": (
        "0/1 nodes are available: 1 node(s) didn't satisfy something new.",
        [(1, Barrier.OTHER, "")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_version_is_understood(name: str) -> None:
    message, expected = CASES[name]
    refusal = parse_message(message)
    assert refusal
    assert refusal.nodes == int(message[2])
    assert [(o.count, o.barrier, o.detail) for o in refusal.obstacles] == expected


def test_the_nodes_with_which_a_pod_came_furthest_count() -> None:
    refusal = parse_message(CASES["1.24 taint"][0])
    assert refusal
    assert refusal.nearest
    assert refusal.nearest.barrier is Barrier.INSUFFICIENT


def test_what_is_not_about_nodes_is_left_alone() -> None:
    assert parse_message("no nodes available to schedule pods") is None
