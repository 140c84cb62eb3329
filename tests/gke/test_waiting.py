"""Google that does not answer: a line says what is waited for, and the command gives up."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from deployer.sweeps.records import Records, SweepRecord
from tests.gke.cloud import Cloud
from tests.gke.commands import Machine
from tests.gke.rooms import FIRST, NAME, SECOND

REMEDY = "check HTTPS_PROXY and your network"
FIRST_SECONDS, LIMIT_SECONDS = 2.0, 60.0
SLACK_SECONDS = 60.0  # other tests have the processor
SPEC = "cluster.yaml"
CONFIG = {"on": "gke", "gke": SPEC, "kubernetes": {"image": "registry.example/a:1"}}
SWEEP = {"program": "a.py", "method": "grid", "parameters": {"a": {"values": [1]}}}
COMMANDS = """
gke up cluster.yaml
gke list
gke down cluster.yaml --yes
orphans
orphans tests --yes
doctor
up sweep.yaml --no-check
down --cluster --yes
down --all --cluster --yes
down --all --on gke
agents list --all
drivers status
""".strip().splitlines()


@contextmanager
def serve_silence(*, drops: bool) -> Iterator[str]:
    """Give an address that takes connections and never answers, or drops packets."""
    with ExitStack() as stack:
        server = stack.enter_context(closing(socket.socket()))
        server.bind(("127.0.0.1", 0))
        server.listen(0 if drops else 128)
        for _ in range(4 if drops else 0):  # the queue is full, and the system answers no more
            client = stack.enter_context(closing(socket.socket()))
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.full
@pytest.mark.slow(seconds=60)
@pytest.mark.parametrize("drops", [True, False])
def test_each_command_says_what_it_waits_for_and_gives_up(
    machine: Machine, tmp_path: Path, drops: bool
) -> None:
    """All side by side, since they sleep."""
    (machine.folder / "deployer.yaml").write_text(json.dumps(CONFIG))
    (machine.folder / "sweep.yaml").write_text(json.dumps(SWEEP))
    (machine.folder / "a.py").write_text("import wandb\n")
    wrong: dict[str, str] = {}
    with serve_silence(drops=drops) as address:
        silent = {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": f"https://{address}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"http://{address}/",
        }
        began: dict[str, float] = {}
        first: dict[str, float] = {}
        ended = time.monotonic() + LIMIT_SECONDS + SLACK_SECONDS
        homes = {words: tmp_path / f"home-{number}" for number, words in enumerate(COMMANDS)}
        for words, home in homes.items():
            order = machine.build_order(words.split(), home, **silent)
            machine.nursery.start(order, home / "ended")
        waiting = set(COMMANDS)
        while waiting and time.monotonic() < ended:
            for words, home in homes.items():
                if (home / "stderr").exists():
                    began.setdefault(words, time.monotonic())
                if read(home / "stderr"):
                    first.setdefault(words, time.monotonic() - began[words])
            waiting = {words for words in waiting if not read(homes[words] / "ended")}
            time.sleep(0.05)
    for words, home in homes.items():
        said = read(home / "stderr") + read(home / "stdout")
        code, seconds = read(home / "ended").strip() or "none", first.get(words, LIMIT_SECONDS)
        late = seconds > FIRST_SECONDS + SLACK_SECONDS
        if late or code != "1" or "waiting for" not in said or REMEDY not in said:
            wrong[words] = f"first line after {seconds:.1f} s, exit {code}\n{said}"
    assert not wrong, "\n".join(f"{words}: {what}" for words, what in wrong.items())


def read(path: Path) -> str:
    """Return what a file holds; nothing before it is there."""
    return path.read_text() if path.exists() else ""


@pytest.mark.full
def test_a_metadata_server_and_a_gcloud_that_do_not_answer(cloud: Cloud, machine: Machine) -> None:
    """Where nobody has logged in, and where only gcloud knows the project."""
    home = machine.folder / "home"
    login = home / ".config/gcloud/application_default_credentials.json"
    program = machine.folder / "gcloud"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o700)
    environment = machine.build_order((), home)["environment"]
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "NO_GCE_CHECK"):
        del environment[name]
    environment["PATH"] = f"{machine.folder}:{environment['PATH']}"
    words = (sys.executable, "-m", "deployer", "gke", "list")
    with serve_silence(drops=True) as address:
        environment["GCE_METADATA_IP"] = address
        asked = subprocess.run(
            words, cwd=machine.folder, env=environment, capture_output=True, text=True, timeout=60
        )
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "hint: gcloud auth application-default login" in asked.stderr
    login.parent.mkdir(parents=True)
    user = {"client_id": "a", "client_secret": "b", "refresh_token": "c"}
    login.write_text(json.dumps({"type": "authorized_user", **user}))
    asked = subprocess.run(
        words, cwd=machine.folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert asked.returncode == 1
    assert "waiting for gcloud (config get project)\n" in asked.stderr
    assert "error: no project given" in asked.stderr
    assert cloud.calls == ()


def test_a_wrong_file_is_an_error_before_any_request(
    cloud: Cloud, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an earlier sweep of the file ran on GKE."""
    (machine.folder / "deployer.yaml").write_text(json.dumps(CONFIG))
    sweep = machine.folder / "sweep.yaml"
    sweep.write_text(json.dumps({**SWEEP, "method": "none"}))
    for name in ("DEPLOYER_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(machine.folder / "home"))
    where = (str(machine.folder), str(sweep))
    Records.load().add(
        SweepRecord("m", "e/p/s", "w", "http://127.0.0.1:9", *where, "h", 0.0, "gke")
    )
    for words in (("up", "sweep.yaml"), ("gke", "up", "none"), ("orphans", "--min-age", "x")):
        assert "error: " in machine.run(*words, code=2)[1]
    assert cloud.calls == ()


@pytest.mark.full
def test_a_zone_elsewhere_that_does_not_answer_stops_nothing(
    cloud: Cloud, machine: Machine
) -> None:
    """Only lists of everything name it, with exit code 1, and the rest is done."""
    cloud.set_operation_seconds(0.05)
    cloud.set_missing_zones("asia-east1-a")
    machine.run("gke", "up", SPEC)
    assert "RUNNING" in machine.run("gke", "up", SPEC)[0]
    out, err = machine.run("gke", "list", SPEC, code=1)
    assert NAME in out
    assert "error: cannot list clusters: no response from asia-east1-a" in err
    err = machine.run("gke", "down", SPEC, "--yes", code=1)[1]
    assert f"error: could not check asia-east1-a for cluster {NAME}: no response" in err
    assert cloud.inventory().empty
    out, err = machine.run("orphans", code=1)
    assert out == "found nothing else\n"
    assert "not checked: asia-east1-a does not answer" in err


@pytest.mark.full
def test_a_zone_of_the_specification_that_does_not_answer(cloud: Cloud, machine: Machine) -> None:
    """A cluster in another one is found; else one may be hidden, and its disks stay."""
    cloud.set_operation_seconds(0.05)
    machine.run("gke", "up", SPEC)
    cloud.set_missing_zones(SECOND)
    machine.run("gke", "up", SPEC)
    cloud.set_missing_zones(FIRST)
    err = machine.run("gke", "up", SPEC, code=1)[1]
    assert f"error: cannot list clusters: no response from {FIRST}" in err
    cloud.set_missing_zones()
    owner = json.loads(machine.run("gke", "list", SPEC, "-o", "json")[0])[0]["owner"]
    cloud.set_missing_zones(FIRST)
    labels = {"managed-by": "deployer", "deployer-cluster": NAME, "deployer-owner": owner}
    for zone in (FIRST, SECOND):
        cloud.add_disk(f"pvc-{zone}", zone, labels=labels, age_seconds=7200)
    assert "not checked" in machine.run("orphans", "--min-age", "0s", "--yes", code=1)[0]
    machine.run("gke", "down", SPEC, "--yes", code=1)
    assert f"{FIRST}/pvc-{FIRST}" in cloud.inventory().disks
    assert f"{SECOND}/pvc-{SECOND}" not in cloud.inventory().disks
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)
