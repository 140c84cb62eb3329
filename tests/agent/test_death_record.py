"""How a supervisor tells a kill from want of memory, and its successor what became of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployer.agent.host.death_record import DeathRecord, count_memory_kills, judge_predecessor

# Files as the kernel writes them: control groups of version 2 and 1, in a container and outside.
FIRST = {
    "proc/self/cgroup": "5:memory:/user.slice/one\n0::/\n",
    "sys/fs/cgroup/memory/user.slice/one/memory.oom_control": "under_oom 0\noom_kill 2\n",
}
FIRST_INSIDE = {
    "proc/self/cgroup": "5:memory:/kubepods/pod1/box\n",
    "sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\noom_kill 3\n",
}
SECOND = {
    "proc/self/cgroup": "0::/user.slice/one\n",
    "sys/fs/cgroup/user.slice/one/memory.events": "oom 9\noom_kill 4\noom_group_kill 1\n",
}
NO_LIMIT = {"proc/self/cgroup": "0::/\n"}
MACHINE = {"proc/vmstat": "nr_free_pages 12\noom_kill 7\n"}


@pytest.mark.parametrize(
    ("files", "group", "machine", "nearest"),
    [
        ({**FIRST, **MACHINE}, 2, 7, 2),
        ({**FIRST_INSIDE, **MACHINE}, 3, 7, 3),
        ({**SECOND, **MACHINE}, 4, 7, 4),
        ({**NO_LIMIT, **MACHINE}, None, 7, 7),
        ({}, None, None, None),
    ],
)
def test_the_kernels_counters_are_found(
    tmp_path: Path,
    files: dict[str, str],
    group: int | None,
    machine: int | None,
    nearest: int | None,
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = count_memory_kills(f"{tmp_path}/")
    assert (found.group, found.machine, found.nearest) == (group, machine, nearest)


def test_a_kill_is_a_signal_while_no_counter_grows(tmp_path: Path) -> None:
    death_record = DeathRecord(str(tmp_path / "witness.json"))
    death_record.look()
    assert death_record.judge() == "signal"
    assert judge_predecessor(str(tmp_path / "witness.json")) == "signal"


def test_what_a_supervisor_has_said_itself_counts_first(tmp_path: Path) -> None:
    path = tmp_path / "witness.json"
    DeathRecord(str(path)).say("interrupted")
    assert judge_predecessor(str(path)) == "interrupted"


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"boot": "another"}, "node"),
        ({"kills": -1}, "OOM"),
        ({"kills": -1, "group": "of another container"}, "signal"),
    ],
)
def test_a_successor_tells_by_the_machine_and_its_counters(
    tmp_path: Path, changes: dict[str, object], cause: str
) -> None:
    path = tmp_path / "witness.json"
    DeathRecord(str(path)).look()
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    assert judge_predecessor(str(path)) == cause


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"said": null, "boot": 1, "kills": 2}'])
def test_without_a_witness_the_machine_was_left(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "witness.json"
    if text is not None:
        path.write_text(text)
    assert judge_predecessor(str(path)) == "node"
