"""A system that does not answer: a line says what is waited for, and the command gives up."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

import psutil
import pytest
import yaml

from deployer.waiting import TIMEOUTS_SECONDS, Waiting, run_program
from tests.cli.conftest import GRID, TRAINER, Project
from tests.cli.test_recovery import wait_for
from tests.cluster.control_plane.image import build_image
from tests.conftest import FOREIGN_KEY
from tests.docs.commands import is_group, list_commands
from tests.forked import be_deployer, load_commands

SWEEP = "ent/proj/abcd1234"
LIMIT_SECONDS = 60.0
SLACK_SECONDS = 60.0  # other tests have the processor
SIDE_BY_SIDE = 40  # they sleep
# Loaded once, not by each of the forks.
CLIENTS = (
    "deployer.executors.kubernetes.executor",
    "deployer.kube.client",
    "deployer.images.image",
    "deployer.launch.pipeline",
    "s3fs",
)

SWEEPS = """
sweep export SWEEP -o out.csv
sweep create grid.yaml
sweep list
sweep show SWEEP
sweep pause SWEEP
sweep resume SWEEP
sweep stop SWEEP
sweep cancel SWEEP
sweep delete SWEEP -y
init --from SWEEP --to n.yaml
agents up SWEEP
"""
# Every command that has something to ask of a cluster, as it asks there.
KUBERNETES = f"""
up grid.yaml -y
doctor grid.yaml
results SWEEP
results get SWEEP
report SWEEP --to report.md
heal SWEEP
down SWEEP
down --all{SWEEPS}agents list SWEEP
agents list --all
agents scale 2 SWEEP
agents drain --agent a SWEEP
agents logs SWEEP
agents logs SWEEP -f
agents down SWEEP -y
data put src d
data get d
data preload d
data list
data delete d -y
secret show
secret delete
drivers status
drivers install
drivers remove
backend up
backend status
backend down -y
backend env
backend open
backend copy
backend user add u
backend user list
backend user remove u
backend user remove u k
"""
WANDB = f"""
up grid.yaml -y
run -- python train.py
doctor
results SWEEP
results get SWEEP
importance SWEEP
report SWEEP --to report.md
heal SWEEP{SWEEPS}agents scale 2 SWEEP
secret set
"""
REGISTRY = """
image push
image load image.tar
"""
OBJECT_STORE = """
data put src d
data put s3://b/other d
data get d
data preload d
data delete d --kept -y
"""
BUILDERS = """
image save image.tar
"""
GIT = """
up grid.yaml -y
plan grid.yaml
doctor grid.yaml
"""


@dataclass
class Case:
    """A command beside a system that does not answer, and what became of it."""

    system: str
    words: str
    folder: Path
    environment: dict[str, str]
    process_id: int = 0
    began: float = 0.0
    lines: list[tuple[float, str]] = field(default_factory=list)
    end_seconds: float = 0.0
    code: int = 0
    connections: int = 0

    def judge(self) -> str:
        """Return what is wrong with how it ended; empty if nothing is."""
        said = [line for _, line in self.lines]
        wrong = [
            self.end_seconds > LIMIT_SECONDS + SLACK_SECONDS and f"{self.end_seconds:.0f} s",
            self.code == 0 and "exit code 0",
            not any(line.startswith("waiting for ") for line in said) and "waits for what?",
            not any(line.startswith(("error: ", "✗")) for line in said) and "no error",
        ]
        shown = "".join(f"\n    {at:5.1f} {line}" for at, line in self.lines[-8:])
        found = ", ".join(one for one in wrong if one)
        return f"{self.system}: {self.words}: {found}{shown}" if found else ""


@contextmanager
def drop() -> Iterator[socket.socket]:
    """Give a listener whose queue is full: what else connects is not answered."""
    with socket.socket() as listener, socket.socket() as held:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        held.connect(listener.getsockname())
        yield listener


@contextmanager
def accept() -> Iterator[socket.socket]:
    """Give a listener that takes every connection and stays silent."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1000)
        yield listener


def count_connections(listener: socket.socket) -> int:
    """Return how many connections a listener was asked for; those that ended are among them."""
    listener.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


def write_program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def build_case(folder: Path, system: str, words: str, port: int, scheme: str = "https") -> Case:
    """Write a project beside one system that does not answer; the others are not there."""
    project, home, programs = folder / "project", folder / "home", folder / "bin"
    project.mkdir(parents=True)
    home.mkdir()
    (project / "src").mkdir()
    (project / "src" / "x").write_text("x")
    (project / "train.py").write_text(TRAINER)
    (project / "grid.yaml").write_text(GRID.format(project="proj", lrs="[1.0, 2.0]"))
    environment = {
        **os.environ,
        "HOME": str(home),
        "DEPLOYER_HOME": str(home / "deployer"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    address = f"127.0.0.1:{port}"
    programs.mkdir()
    settings: dict[str, object] = {}
    if system in ("kubernetes", "plugin"):
        environment |= {"DEPLOYER_ON": "kubernetes", "KUBECONFIG": str(home / "kubeconfig")}
        write_kubeconfig(home / "kubeconfig", f"{scheme}://{address}", system == "plugin")
        source = {"folder": "src"} if "preload" in words else {"claim": "c"}
        settings["data"] = {"name": "d", "path": "/data/d", **source}
        settings["kubernetes"] = {"image": "registry.example/x:1"}
        write_program(programs, "get-token", "exec sleep 600")
    elif system == "wandb":
        environment |= {"WANDB_BASE_URL": f"http://{address}", "WANDB_API_KEY": FOREIGN_KEY}
        environment["KUBECONFIG"] = str(home / "kubeconfig")
        write_kubeconfig(home / "kubeconfig", "https://127.0.0.1:9", with_plugin=False)
    elif system == "registry":
        settings["image"] = {"repository": f"{address}/x/y", "plain_http": True}
        write_program(programs, "docker", "exit 0")
    elif system == "s3":
        environment |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
        environment |= {"AWS_ENDPOINT_URL": f"http://{address}"}
        settings["data"] = {"name": "d", "path": "/data/d", "url": "s3://b/d"}
    elif system == "builders":
        settings["image"] = {"repository": "registry.example/x"}
        for name in ("docker", "podman", "buildah"):
            write_program(programs, name, "sleep 600")
    elif system == "git":
        (project / ".git").mkdir()
        settings["code"] = "git"
        write_program(programs, "git", "sleep 600")
    if system in ("registry", "builders"):
        (project / "Dockerfile").write_text("FROM scratch\n")
        build_image(project / "image.tar", project / "train.py", ["registry.example/x:1"])
    (project / "deployer.yaml").write_text(yaml.safe_dump(settings))
    return Case(system, words.replace("SWEEP", SWEEP), project, environment)


def write_kubeconfig(file: Path, address: str, with_plugin: bool) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "get-token",
        "interactiveMode": "Never",
    }
    cluster = {"server": address, "insecure-skip-tls-verify": True}
    context = {"cluster": "c", "user": "u", "namespace": "ns"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"exec": plugin} if with_plugin else {"token": "t"}}],
        "contexts": [{"name": "lab", "context": context}],
    }
    file.write_text(yaml.safe_dump(content))


def run_side_by_side(cases: Sequence[Case]) -> None:
    """Run each command to its end, or a little past the limit."""
    load_commands()
    for client in CLIENTS:
        import_module(client)
    waiting, running = list(cases), 0
    with DefaultSelector() as selector:
        while waiting or running:
            while waiting and running < SIDE_BY_SIDE:
                case = waiting.pop(0)
                selector.register(_begin(case), EVENT_READ, case)
                running += 1
            for key, _ in selector.select(1.0):
                _read(key.data, selector, key.fileobj)
            for key in list(selector.get_map().values()):
                if time.monotonic() - key.data.began > LIMIT_SECONDS + SLACK_SECONDS:
                    os.killpg(key.data.process_id, signal.SIGKILL)
            running = len(selector.get_map())


def _begin(case: Case) -> int:
    said, says = os.pipe()
    case.began = time.monotonic()
    case.process_id = os.fork()
    if case.process_id == 0:
        os.setsid()
        given = os.open(os.devnull, os.O_RDONLY)
        be_deployer(shlex.split(case.words), case.folder, case.environment, (given, says, says))
    os.close(says)
    return said


def _read(case: Case, selector: DefaultSelector, end: object) -> None:
    block = os.read(end, 1 << 16)  # type: ignore[call-overload]
    at = time.monotonic() - case.began
    case.lines += [(at, line) for line in block.decode().splitlines() if line.strip()]
    if not block:
        selector.unregister(end)
        os.close(end)
        _, status = os.waitpid(case.process_id, 0)
        case.end_seconds, case.code = at, os.waitstatus_to_exitcode(status)


TABLE = {
    "kubernetes": KUBERNETES,
    "plugin": KUBERNETES,
    "wandb": WANDB,
    "registry": REGISTRY,
    "s3": OBJECT_STORE,
    "builders": BUILDERS,
    "git": GIT,
}
SLEEPERS = ("plugin", "builders", "git")  # programs; of the other systems there is a port
# For `make test`: one for each client and each way in which it is used.
FEW = """
kubernetes drop: doctor grid.yaml
kubernetes drop: down --all
kubernetes accept: sweep show SWEEP
kubernetes accept: doctor grid.yaml
plugin sleep: agents list --all
wandb drop: sweep list
wandb accept: agents scale 2 SWEEP
wandb accept: doctor
registry accept: image push
s3 accept: data get d
builders sleep: image save image.tar
git sleep: up grid.yaml -y
"""
# Nothing but this machine and its files, a sweep that runs, or Google's cloud (tests/gke).
ELSEWHERE = """
plan, watch, rights, sweep check, sweep import, backend serve, orphans,
gke plan, gke up, gke down, gke list
"""


def list_all() -> list[str]:
    ways = ("drop", "accept")
    return [
        f"{system} {way}: {words}"
        for system, table in TABLE.items()
        for way in (("sleep",) if system in SLEEPERS else ways)
        for words in table.strip().splitlines()
    ]


def run_all(lines: Sequence[str], folder: Path) -> list[Case]:
    """Run each line's command beside its system."""
    cases, listeners = [], []
    with ExitStack() as ports:
        for number, line in enumerate(lines):
            place, _, words = line.partition(": ")
            system, way = place.split()
            listeners.append(ports.enter_context({"accept": accept}.get(way, drop)()))
            port = listeners[-1].getsockname()[1]
            scheme = "http" if way == "accept" else "https"
            cases.append(build_case(folder / str(number), system, words, port, scheme))
        run_side_by_side(cases)
        for case, listener in zip(cases, listeners, strict=True):
            case.connections = count_connections(listener)
    return cases


def test_every_command_is_in_the_table() -> None:
    known = "\n".join([*TABLE.values(), ELSEWHERE.replace(", ", "\n").replace(",", "")])
    starts = {tuple(line.split()[:n]) for line in known.splitlines() for n in (1, 2, 3)}
    commands = [words for words, command in list_commands().items() if not is_group(command)]
    assert [words for words in commands if words not in starts] == []


@pytest.mark.slow(seconds=45)
def test_a_command_says_what_it_waits_for_and_gives_up(tmp_path: Path) -> None:
    cases = run_all(FEW.strip().splitlines(), tmp_path)
    wrong = [said for case in cases if (said := case.judge())]
    assert not wrong, "\n".join(wrong)
    said = {case.words: "\n".join(line for _, line in case.lines) for case in cases}
    assert "get-token gave no credentials in 30 s and was killed" in said["agents list --all"]
    assert "(context lab)\n" in said["down --all"]
    assert "HTTPConnection" not in "".join(said.values())
    assert "(read timeout=15.0)" in said["doctor"]
    asked_once = [case for case in cases if case.words in ("doctor", "doctor grid.yaml")]
    assert [case.connections for case in asked_once] == [1, 1, 1]


@pytest.mark.full
def test_each_command_says_what_it_waits_for_and_gives_up(tmp_path: Path) -> None:
    cases = run_all(list_all(), tmp_path)
    wrong = [said for case in cases if (said := case.judge())]
    assert not wrong, "\n".join(wrong)


def test_a_backend_that_does_not_end_is_named(project: Project) -> None:
    project.run("backend", "up")
    process_id = json.loads(project.run("backend", "status", "-o", "json").stdout)["process_id"]
    os.kill(process_id, signal.SIGSTOP)
    down = project.start("backend", "down")
    assert down.stderr
    said = down.stderr.readline()
    if "for the libraries of" in said:  # a slow machine waits for that first
        said = down.stderr.readline()
    os.kill(process_id, signal.SIGCONT)
    assert said == "waiting for the embedded backend to stop\n"
    assert down.communicate(timeout=60)[1] == "backend stopped; its data stays\n"


def test_a_program_that_is_silent_is_killed_with_its_descendants(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(["sh", "-c", f"sleep 600 & echo $! > {tmp_path}/id; wait"], 1.0, "sh")
    child = int((tmp_path / "id").read_text())
    wait_for(lambda: not is_alive(child))


def is_alive(process_id: int) -> bool:
    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_was_waited_for_in_vain_leaves_less_time_until_the_sweep_is_watched() -> None:
    waiting = Waiting()
    waiting.begin_command()
    assert waiting.limit(TIMEOUTS_SECONDS) == TIMEOUTS_SECONDS
    waiting.note("W&B", 20.0)
    assert waiting.limit(TIMEOUTS_SECONDS) == (5.0, 10.0)
    waiting.note("Kubernetes", 20.0)
    assert waiting.gives_up
    assert waiting.limit(TIMEOUTS_SECONDS) == (2.0, 2.0)
    with waiting.waiting_for("W&B"):
        pass  # it answers
    assert waiting.limit(TIMEOUTS_SECONDS) == (5.0, 10.0)
    waiting.begin_examination()
    assert waiting.limit(TIMEOUTS_SECONDS) == (2.0, 2.0)
    waiting.begin_command()
    assert waiting.limit(TIMEOUTS_SECONDS) == TIMEOUTS_SECONDS
    waiting.begin_watching()
    assert waiting.limit(TIMEOUTS_SECONDS) == TIMEOUTS_SECONDS
