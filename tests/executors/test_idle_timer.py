"""The timer that deletes a cluster that nobody uses: when it does, and what it needs for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.executors.gke.idle_timer import (
    LISTS,
    STATE,
    TOKEN,
    USED_AT,
    find_last_end,
    find_use,
    main,
)
from deployer.executors.gke.timer import build_timer, describe_grant
from tests.gke.specs import GOOD, HEAD, complain, parse
from tests.golden_files import check_golden

CLUSTER = "projects/lab-12/locations/us-central1-a/clusters/lab"
NOW = 1_800_000_000.0
EARLIER, LATELY = "2020-01-01T00:00:00Z", "2027-01-15T07:50:00Z"  # a moment before NOW
ENDED = {"type": "Complete", "status": "True"}


def build(name: str, namespace: str = "default", **parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "status": {}, "spec": {}, **parts}


def end_container(at: str) -> dict[str, Any]:
    return {
        "phase": "Succeeded",
        "containerStatuses": [{"state": {"terminated": {"finishedAt": at}}}],
    }


RUNNING = {"phase": "Running"}
FINISHED = {"conditions": [{**ENDED, "lastTransitionTime": EARLIER}]}


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ({}, ""),
        ({"pods": [build("dns", "kube-system", status=RUNNING)]}, ""),
        ({"pods": [build("collector", "gmp-system", status=RUNNING)]}, ""),
        ({"pods": [build("idle-timer-1", "deployer-timer", status=RUNNING)]}, ""),
        ({"pods": [build("agent", status=RUNNING)]}, "pod default/agent is Running"),
        ({"pods": [build("agent", status={"phase": "Pending"})]}, "pod default/agent is Pending"),
        ({"pods": [build("own", "gke", status=RUNNING)]}, "pod gke/own is Running"),
        ({"pods": [build("agent", status=end_container(EARLIER))]}, ""),
        ({"pods": [build("agent", status=end_container(LATELY))]}, ""),
        ({"jobs": [build("agent")]}, "job default/agent is not finished"),
        ({"jobs": [build("agent", status=FINISHED)]}, ""),
        ({"claims": [build("sweep-backend")]}, "claim default/sweep-backend holds data"),
        ({"claims": [build("of", "kube-system")]}, "claim kube-system/of holds data"),
        ({"services": [build("web", spec={"type": "ClusterIP"})]}, ""),
        (
            {"services": [build("web", spec={"type": "LoadBalancer"})]},
            "service default/web has a load balancer",
        ),
    ],
)
def test_a_cluster_in_use_or_with_data_stays(objects: dict[str, Any], said: str) -> None:
    everything = {kind: objects.get(kind, []) for kind in LISTS}
    assert find_use(everything) == said


def test_it_is_idle_from_the_last_end_on() -> None:
    nothing: dict[str, Any] = {kind: [] for kind in LISTS}
    assert find_last_end(nothing) == 0.0
    ended = build("agent", status=end_container(LATELY))
    own = build("own", "deployer-timer", status=end_container("2027-01-15T07:59:00Z"))
    there = {**nothing, "jobs": [build("old", status=FINISHED)], "pods": [ended, own]}
    assert find_last_end(there) == NOW - 600


class Answers(ThreadingHTTPServer):
    """A Kubernetes, a metadata server and a GKE in one."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pods: list[dict[str, Any]] = []
        self.status = 200
        self.state: dict[str, str] = {}
        self.calls: list[tuple[str, str, str]] = []


class Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        if self.path == TOKEN:
            assert self.headers["Metadata-Flavor"] == "Google"
            self.answer(200, {"access_token": "of-google"})
        elif self.path == STATE:
            self.answer(200, {"data": self.server.state})
        else:
            self.answer(200, {"items": self.server.pods if self.path == LISTS["pods"] else []})

    def do_PATCH(self) -> None:
        assert self.path == STATE
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.state.update(json.loads(content)["data"])
        self.answer(200, {})

    def do_DELETE(self) -> None:
        self.answer(self.server.status, {"error": {"message": "said"}})

    def answer(self, status: int, content: Any) -> None:
        key = self.headers["Authorization"] or ""
        self.server.calls.append((self.command, self.path, key))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def answers() -> Iterator[Answers]:
    with Answers() as served:
        threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True).start()
        yield served
        served.shutdown()


def run(answers: Answers, folder: Path, now: float = NOW) -> int:
    """Run what the CronJob runs, with the settings of its manifest."""
    host = f"127.0.0.1:{answers.server_address[1]}"
    (folder / "token").write_text("of-kubernetes\n")
    spec = parse(f"{HEAD}delete_when_idle: 2h\n{GOOD}")
    job = build_timer(spec, "lab-12", "us-central1-a", NOW - 7200)[-1]
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    settings = {one["name"]: one["value"] for one in container["env"]}
    kubernetes = {"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": ""}
    places = {"KUBERNETES_URL": f"http://{host}", "CONTAINER_URL": f"http://{host}"}
    return main({**settings, **kubernetes, **places, "GCE_METADATA_HOST": host}, folder, now)


def test_it_deletes_its_own_cluster_with_googles_token(
    answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(answers, tmp_path) == 0
    assert capsys.readouterr().out == "the cluster is idle and is being deleted\n"
    lists = [("GET", path, "Bearer of-kubernetes") for path in LISTS.values()]
    deletion = ("DELETE", f"/v1/{CLUSTER}", "Bearer of-google")
    state = ("GET", STATE, "Bearer of-kubernetes")
    assert answers.calls == [*lists, state, ("GET", TOKEN, ""), deletion]


@pytest.mark.parametrize(("status", "code"), [(403, 1), (404, 0), (400, 0), (500, 1)])
def test_a_refusal_is_in_its_log(
    answers: Answers,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    status: int,
    code: int,
) -> None:
    """Without the right the Job fails; another operation on the cluster is waited for."""
    answers.status = status
    assert run(answers, tmp_path) == code
    said = f'Google answers {status}: {{"error": {{"message": "said"}}}}'
    assert capsys.readouterr().out == f"the cluster is not deleted: {said}\n"


def test_the_last_use_counts_although_no_trace_of_it_is_left(
    answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Google is asked for nothing until then; agents may be dismissed and started anew."""
    answers.pods = [build("agent", status=RUNNING)]
    assert run(answers, tmp_path) == 0
    assert answers.state == {USED_AT: f"{NOW:.0f}"}
    answers.pods = []
    assert run(answers, tmp_path, NOW + 7199) == 0
    assert capsys.readouterr().out.splitlines() == [
        "the cluster stays: pod default/agent is Running",
        "the cluster stays: idle for 7199 s of 7200",
    ]
    assert {path for _, path, _ in answers.calls} == {*LISTS.values(), STATE}
    assert run(answers, tmp_path, NOW + 7200) == 0
    assert answers.calls[-1][0] == "DELETE"


def test_what_the_timer_is_and_may() -> None:
    spec = parse(f"{HEAD}project: lab-12\ndelete_when_idle: 2h\n{GOOD}")
    manifests = build_timer(spec, "lab-12", "us-central1-a", 0.0)
    program = manifests[-2]["data"].pop("idle_timer.py")
    assert "def find_use(" in program
    grant = "".join(f"# {line}\n" for line in describe_grant(spec, "lab-12"))
    check_golden("gke/timer.txt", grant + yaml.safe_dump_all(manifests, sort_keys=False))


def test_without_the_key_there_is_no_timer() -> None:
    assert build_timer(parse(HEAD + GOOD), "lab-12", "us-central1-a", 0.0) == ()
    [(said, _)] = complain(f"{HEAD}delete_when_idle: 5m\n{GOOD}")
    assert said == "lab.yaml:3: delete_when_idle: is shorter than 600s"
