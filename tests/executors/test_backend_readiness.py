"""What is done about a backend that does not start, by how its pod ended or why it waits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.executors.kubernetes.backend.deployment import Absence, choose_hint, read_end
from deployer.kube.client import open_kube
from tests.executors.pending import pending
from tests.executors.test_examination import kubeconfig

__all__ = ["kubeconfig"]
LOOK = "kubectl --context c describe pod backend-0 -n research"
IMAGE = "backend: {image: …} in deployer.yaml: an image with Python 3.11 or newer"
DISK = "backend: {storage_class: …} in deployer.yaml; kubectl --context c get storageclass"


def build_pod(exit_code: int, message: str = "", restarts: int = 1) -> dict[str, Any]:
    ended = {"terminated": {"exitCode": exit_code, "message": message}}
    return {"status": {"containerStatuses": [{"lastState": ended, "restartCount": restarts}]}}


@pytest.mark.parametrize(
    ("why", "hint"),
    [
        (Absence(), LOOK),
        (Absence("No module named zlib", exit_code=1), IMAGE),
        (Absence("Python 3.11 or newer is needed", exit_code=78), IMAGE),
        (Absence("no such file", exit_code=128), IMAGE),
        (Absence("cannot open PersistentVolumeClaim", exit_code=70), LOOK),
        (Absence("a", pending(Cause.CLAIM_UNBOUND, "a")), DISK),
        (Absence("No module named", pending(Cause.OTHER, "a")), LOOK),
    ],
)
def test_the_hint_is_chosen_by_codes_and_causes(kubeconfig: Path, why: Absence, hint: str) -> None:
    kube = open_kube(environment={"KUBECONFIG": str(kubeconfig)})
    assert choose_hint(kube, "backend", why) == hint


def test_what_ends_again_and_again_or_never_starts_is_hopeless() -> None:
    first, again = read_end(build_pod(70, "a\nlast words\n")), read_end(build_pod(70, restarts=2))
    assert first == Absence("last words", None, 70, 1)
    assert not first.hopeless
    assert again
    assert (again.words, again.hopeless) == ("its server exited with 70", True)
    assert read_end(None) is read_end({"status": {}}) is None
    for transient in (True, False, None):
        reason = pending(Cause.IMAGE, "a", transient)
        assert Absence("a", reason).hopeless is (transient is False)


def test_the_server_never_ends_as_an_image_without_it_does(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "deployer.backend.server.foreground"]
    done = subprocess.run(
        [*command, "127.0.0.1", "0", str(tmp_path / "file")], capture_output=True, text=True
    )
    assert (done.returncode, bool(done.stderr.strip())) == (70, True)
