"""A program that the image lacks, in the words of each runtime: said alike wherever it shows."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.errors import PERMANENT, Finding
from deployer.executors.kubernetes.agents.objects import build_agent, explain_pod_end, group_objects
from deployer.executors.kubernetes.diagnose.containers import explain_missing_program
from deployer.executors.kubernetes.diagnose.facts import PodFacts
from deployer.executors.kubernetes.diagnose.pending import explain
from tests.docs.pending_table import is_listed
from tests.executors.diagnose.bench import CONTAINER
from tests.executors.pending import pending
from tests.executors.test_objects import NAME, NOW, OVER, PENDING, build_object

IMAGE = CONTAINER["image"]
SUPERVISOR = "/deployer/supervisor/agent.zip"
CONTAINERD = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
    "create failed: unable to start container process: "
)
# What each runtime says of the program "{}"; `WITHIN` of one that is named by its path.
RUNTIMES = {
    "containerd": f'{CONTAINERD}exec: "{{}}": executable file not found in $PATH: unknown',
    "containerd, runc 1.2": (
        f'{CONTAINERD}error during container init: exec: "{{}}": executable file not found in $PATH'
    ),
    "containerd, runc of 2019": (
        "failed to create containerd task: OCI runtime create failed: container_linux.go:345: "
        'starting container process caused "exec: \\"{}\\": executable file not found in $PATH"'
    ),
    "docker": (
        'failed to start container "0a1b": Error response from daemon: failed to create task for '
        "container: failed to create shim task: OCI runtime create failed: runc create failed: "
        'unable to start container process: exec: "{}": executable file not found in $PATH: unknown'
    ),
    "cri-o, runc": (
        'container create failed: time="2026-01-01T00:00:00Z" level=error msg="runc create failed: '
        'unable to start container process: exec: \\"{}\\": executable file not found in $PATH"'
    ),
    "cri-o, crun": (
        "container create failed: executable file `{}` not found in $PATH: "
        "No such file or directory"
    ),
    "cri-o, another crun": "container create failed: executable file '{}' not found in $PATH",
    "gvisor": (
        "failed to create containerd task: OCI runtime create failed: starting container: error "
        'finding executable "{}" in PATH [/usr/bin /bin]: no such file or directory'
    ),
}
WITHIN = {
    "containerd": f'{CONTAINERD}exec: "{{0}}": stat {{0}}: no such file or directory: unknown',
    "cri-o, crun": (
        "container create failed: executable file `{0}` not found: No such file or directory"
    ),
}
# Which state a container is in when it could not be started.
STATES = {
    "StartError": ("terminated", {"exitCode": 128}),
    "ContainerCannotRun": ("terminated", {"exitCode": 127}),
    "RunContainerError": ("waiting", {}),
    "CreateContainerError": ("waiting", {}),
}
OTHERS = {
    # The node lacks what NVIDIA's runtime class names.
    "a runtime of the node": CONTAINERD
    + 'exec: "nvidia-container-runtime": executable file not found in $PATH: unknown',
    "another program with this name in it": CONTAINERD
    + 'exec: "/opt/python9/run": stat /opt/python9/run: no such file or directory',
    "a folder": CONTAINERD + 'chdir to cwd ("/srv") set in config.json failed: no such file',
    "a program that may not run": CONTAINERD + 'exec: "python9": permission denied: unknown',
    "nothing": "",
}


def build_pod(
    said: str,
    reason: str = "StartError",
    command: tuple[str, ...] = ("python9", SUPERVISOR),
    phase: str = "",
    **container: Any,
) -> dict[str, Any]:
    """Return a pod whose container could not be started."""
    kind, more = STATES.get(reason, ("terminated", {"exitCode": 1}))
    state = {kind: {"reason": reason, "message": said, **more}}
    phase = phase or ("Failed" if kind == "terminated" else "Pending")
    statuses = [{"name": "agent", "state": state, **container}]
    pod = build_object("Pod", {"phase": phase, "containerStatuses": statuses}, f"{NAME}-x7k2p")
    one = {**CONTAINER, "env": [], "command": [*command]}
    pod["spec"] = {"nodeName": "n1", "containers": [one]}
    return pod


def find(pod: dict[str, Any]) -> Finding | None:
    return explain(PodFacts(build_object("Job", {}), pod, "ns", age_seconds=100.0))


LACKS = pending(
    Cause.PROGRAM_MISSING,
    f"the image {IMAGE} has no python9",
    PERMANENT,
    "kubernetes: {python: python3} in deployer.yaml",
)


@pytest.mark.parametrize("reason", STATES)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_each_runtime_is_understood_in_each_state(runtime: str, reason: str) -> None:
    assert find(build_pod(RUNTIMES[runtime].format("python9"), reason)) == LACKS
    assert is_listed(LACKS)


@pytest.mark.parametrize("runtime", WITHIN)
def test_a_path_that_is_not_in_the_image(runtime: str) -> None:
    path = "/opt/conda/bin/python"
    found = find(build_pod(WITHIN[runtime].format(path), command=(path, SUPERVISOR)))
    assert found
    assert (found.message, found.fix) == (f"the image {IMAGE} has no {path}", LACKS.fix)


def test_a_path_on_a_volume_may_still_be_filled() -> None:
    program = "/data/venv/bin/python"
    pod = build_pod(WITHIN["containerd"].format(program), command=(program, SUPERVISOR))
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    found = find(pod)
    assert found
    assert (found.message, found.transient) == (f"volume data has no {program}", None)
    assert is_listed(found)


def test_an_agent_that_has_run_ends_by_what_it_did_beside_a_sidecar_that_has_not_started() -> None:
    pod = build_pod(RUNTIMES["containerd"].format("python9"))
    pod["spec"]["containers"].append({"name": "trainer", "command": ["python3"]})
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    pod["status"]["containerStatuses"].append({"name": "trainer", "state": ended})
    assert explain_missing_program(pod) is None


def test_the_backends_python_is_its_own_setting() -> None:
    pod = build_pod(RUNTIMES["containerd"].format("python9"))
    for part in (pod["spec"]["containers"], pod["status"]["containerStatuses"]):
        part[0]["name"] = "backend"
    found = explain_missing_program(pod)
    assert found
    assert found.fix == "backend: {python: python3} in deployer.yaml"


def test_where_python3_itself_is_not_found_its_path_is_asked_for() -> None:
    said = RUNTIMES["containerd"].format("python3")
    found = find(build_pod(said, command=("python3", SUPERVISOR)))
    assert found
    assert found.message == f"the image {IMAGE} has no python3"
    assert found.fix == "kubernetes: {python: PATH} in deployer.yaml"
    assert is_listed(found)


def test_a_container_of_a_template_has_its_command_there() -> None:
    said = RUNTIMES["containerd"].format("exporter")
    found = find(build_pod(said, command=("exporter", "--port=9")))
    assert found
    assert found.message == f"the image {IMAGE} has no exporter"
    assert found.fix == "another command of container agent in your template"
    assert is_listed(found)


def test_a_container_that_is_started_again_and_again_says_why_the_last_start_failed() -> None:
    """As with `restartPolicy: OnFailure` in a template."""
    last = {"terminated": {"reason": "StartError", "message": RUNTIMES["docker"].format("python9")}}
    waits = "back-off 10s restarting failed container"
    pod = build_pod(waits, "CrashLoopBackOff", phase="Pending", lastState=last)
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert find(pod) == LACKS


@pytest.mark.parametrize("what", OTHERS)
def test_other_failures_to_start_are_not_the_images(what: str) -> None:
    for reason in STATES:
        assert explain_missing_program(build_pod(OTHERS[what], reason)) is None


def test_what_a_program_prints_of_others_is_not_the_runtimes() -> None:
    """A failed container's message may be the end of its log."""
    printed = build_pod(RUNTIMES["containerd"].format("python9"), "Error")
    assert explain_missing_program(printed) is None
    assert explain_missing_program(build_object("Pod", PENDING)) is None


def test_an_agent_says_it_once_before_and_after_its_job_has_ended() -> None:
    """A Job tries again, so that its agent is starting until it gives up."""
    pod = build_pod(RUNTIMES["containerd"].format("python9"))
    said = f"the image {IMAGE} has no python9"
    [starting] = group_objects([build_object("Job", {})], [pod])
    agent = build_agent(starting, NOW, find(pod))
    assert (agent.state, agent.exit_code) == ("starting", None)
    assert agent.reason == f"{said} (permanent): {LACKS.fix}"
    assert agent.pending == LACKS
    [ended] = group_objects([build_object("Job", OVER)], [pod])
    agent = build_agent(ended, NOW)
    assert (agent.state, agent.exit_code) == ("ended", 128)
    assert agent.reason == f"{said}: {LACKS.fix}"


def test_a_data_loader_says_it_too() -> None:
    pod = build_pod(
        RUNTIMES["docker"].format("python9"),
        "ContainerCannotRun",
        ("python9", "/deployer/loader/loader.zip"),
    )
    assert explain_pod_end(pod) == f"the image {IMAGE} has no python9: {LACKS.fix}"
