"""Several agents in one pod: each its own supervisor, folder, log and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import deployer.agent
from deployer.agent.environment import count_cpus, divide
from deployer.agent.exit_codes import STOPPED
from deployer.agent.host.processes import list_marked, send_signal
from deployer.agent.host.status import SupervisorStatus, load_status
from deployer.agent.pod import MESSAGE_BYTES, choose_gravest, join_ends
from deployer.agent.settings import POLLS_VARIABLE, QUICK
from deployer.model import SweepPath
from deployer.wandb_api.operations import create_agent_keys, get_sweep
from tests.agent.conftest import PATIENCE_SECONDS, Bench, wait_for

NAMES = ("pack-a1", "pack-a2")


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([0, 0], 0),
        ([0, 1], 1),
        ([1, 3], 3),
        ([137, 0, 78], 78),
        ([143, 0], 143),
        ([3, 143, 78], 143),
    ],
)
def test_the_pod_ends_with_the_gravest_code(codes: list[int], code: int) -> None:
    assert choose_gravest(codes) == code


def test_all_ends_fit_into_what_a_kubelet_reads() -> None:
    ends = join_ends([f"a{n}: ended with exit code 1: {'x' * 900}\ny" for n in range(8)])
    assert len(ends) <= MESSAGE_BYTES
    assert [line.split(b":")[0] for line in ends.splitlines()] == [b"a%d" % n for n in range(8)]


def test_threads_and_gpu_memory_are_divided(tmp_path: Path) -> None:
    shares = divide(8, 4, 4)
    assert (shares["OMP_NUM_THREADS"], shares["XLA_PYTHON_CLIENT_MEM_FRACTION"]) == ("2", "0.225")
    assert divide(2, 4, 4)["OMP_NUM_THREADS"] == "1"
    limit = tmp_path / "cpu.max"
    limit.write_text("100000 100000\n")
    assert count_cpus(str(limit)) == 1
    limit.write_text("max 100000\n")
    assert count_cpus(str(limit)) == len(os.sched_getaffinity(0))


@dataclass
class Pod:
    """A pack that runs as in a container; each agent has a folder below `agents`."""

    process: subprocess.Popen[str]
    agents: Path
    annotations: Path
    words: Path

    def status(self, name: str) -> SupervisorStatus:
        """Return what an agent's supervisor says of itself."""
        status = load_status(str(self.agents / name / "status.json"))
        assert status is not None
        return status

    def states(self) -> list[str]:
        """Return the states of all agents that have said anything."""
        files = [self.agents / name / "status.json" for name in NAMES]
        found = [load_status(str(file)) for file in files]
        return [status.state for status in found if status]

    def left(self) -> list[int]:
        """Return the processes of all agents that live."""
        return [p.id for name in NAMES for p in list_marked(str(self.agents / name))]

    def wait(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and all that was printed."""
        output, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, output


@dataclass
class Pods:
    """Starts packs on a bench."""

    bench: Bench
    started: list[Pod]

    def start(self, path: SweepPath) -> Pod:
        """Start a pod of two agents with keys of their own."""
        folder = self.bench.folder
        keys = create_agent_keys(self.bench.client, path, NAMES, uuid.uuid4().hex)
        for number, name in enumerate(NAMES, 1):
            (folder / f"key-{number}").write_text(keys[name])
        words, annotations = folder / "words", folder / "annotations"
        annotations.write_text("")
        agents = folder / "agents"
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; from deployer.agent.pod import main; sys.exit(main())",
            ],
            cwd=folder,
            env={**os.environ, **self._environment(folder), "DEPLOYER_SWEEP_PATH": str(path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        pod = Pod(process, agents, annotations, words)
        self.started.append(pod)
        return pod

    def _environment(self, folder: Path) -> Mapping[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONSAFEPATH": "1",
            "PYTHONPATH": str(Path(deployer.agent.__file__).parents[2]),
            "HOME": str(folder),
            "WANDB_BASE_URL": self.bench.backend.url,
            "DEPLOYER_AGENTS": " ".join(NAMES),
            "DEPLOYER_AGENT": NAMES[0],
            "DEPLOYER_AGENTS_FOLDER": str(folder / "agents"),
            "DEPLOYER_AGENT_GRACE_SECONDS": "10",
            "DEPLOYER_KEY_FILE": str(folder / "key"),
            "DEPLOYER_POD_ANNOTATIONS": str(folder / "annotations"),
            "DEPLOYER_TERMINATION_LOG": str(folder / "words"),
            POLLS_VARIABLE: QUICK,
        }


@pytest.fixture
def pods(bench: Bench) -> Iterator[Pods]:
    found = Pods(bench, [])
    yield found
    for pod in found.started:
        pod.process.kill()
        pod.process.communicate()
        for process in pod.left():
            send_signal(process, signal.SIGKILL)


@pytest.mark.slow
def test_agents_of_a_pod_fail_drain_and_stop_each_by_itself(bench: Bench, pods: Pods) -> None:
    path = bench.create_sweep("[1.0, 2.0, 3.0]", wait="yes")
    first = pods.start(path)
    bench.wait_for_work(2)
    of_one, of_two = (first.status(name) for name in NAMES)
    # One dies: it is started again and its run goes on; the other notices nothing.
    send_signal(of_two.process_id, signal.SIGKILL)
    wait_for(lambda: first.status(NAMES[1]).process_id != of_two.process_id, "a new supervisor")
    wait_for(lambda: first.status(NAMES[1]).run_id == of_two.run_id, "its run")
    assert first.status(NAMES[0]) == of_one
    # So it is where the pod's first agent dies, whose name all processes of the pod were given.
    of_two = first.status(NAMES[1])
    send_signal(of_one.process_id, signal.SIGKILL)
    wait_for(lambda: first.status(NAMES[0]).process_id != of_one.process_id, "a new supervisor")
    wait_for(lambda: first.status(NAMES[0]).run_id == of_one.run_id, "its run")
    assert first.status(NAMES[1]) == of_two
    first.annotations.write_text('deployer.dev/drain-2="true"\n')
    wait_for(lambda: first.states() == ["running", "draining"], "one that drains")
    first.process.terminate()
    code, output = first.wait()
    assert code == STOPPED, output
    assert first.left() == []
    bench.release()
    second = pods.start(path)
    code, output = second.wait()
    assert code == 0, output
    assert get_sweep(bench.client, path).state == "FINISHED"
    assert second.left() == []
    ends = second.words.read_text().splitlines()
    assert [end.split(":")[0] for end in ends] == list(NAMES)
    assert all("ended with exit code 0" in end for end in ends)
    assert {line.split("]")[0] for line in output.splitlines()} == {f"[{name}" for name in NAMES}
