"""The keys of every `-o json` and the columns of every `-o csv`: users' scripts depend on them.

A golden lists for each command the path and type of every value in its JSON, and its CSV columns in
order. It changes if a key is removed, renamed or added.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from deployer.__main__ import run
from deployer.analysis.importance import Importance, ParameterImportance
from deployer.cli.backend_place import InCluster
from deployer.cli.output.render import emit, show_error
from deployer.cli.output.status import show_agents, show_ended
from deployer.cli.ranking import show_results
from deployer.cli.results import show_importance
from deployer.cli.sweep import show_sweep
from deployer.cli.up import say_how_to_reattach
from deployer.config.causes import Cause
from deployer.config.credentials import Owner, build_owner
from deployer.config.paths import agents_folder, outputs_folder
from deployer.errors import PERMANENT, DeployerError, Finding, Severity
from deployer.executors.kubernetes.backend.deployment import ClusterBackend
from deployer.executors.kubernetes.executor import KubernetesExecutor
from deployer.executors.local.agent_folder import AgentFolder, AgentSpec
from deployer.executors.registry import find_executor
from deployer.images.image_file import LoadedImage, SavedImage
from deployer.kube.objects import (
    MANAGED_BY,
    OWNER_LABEL,
    SWEEP_PATH_ANNOTATION,
)
from deployer.launch.pipeline import Launch
from deployer.launch.scaling import Ended
from deployer.model import Agent, Attempt, Ending, Run, Sweep, SweepPath
from deployer.sweeps.results import Results, build_results
from deployer.wandb_api.model import Snapshot
from tests.backend.client import Client
from tests.conftest import ServedBackend
from tests.docs.commands import is_group, list_commands
from tests.executors.gpu_drivers.objects import build_node, build_pod
from tests.executors.pending import pending
from tests.executors.refusing_server import NAMESPACE, Answering, serve_kube
from tests.golden_files import FOLDER, check_golden
from tests.project_files import read_project

GOLDENS = "output_keys"
TYPES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
}
# Commands whose JSON costs too much to make here, and the tests that read some of its keys.
ELSEWHERE = {
    "up": "at its end what `watch` shows; `up --detach` is here",
    "run": "what `up` shows",
    "data preload": "a list of what `data put` shows",
    "gke list": "a list of what `gke up` shows",
    "image push": "tests/cluster/images/test_image.py",
}
GRID = """
program: train.py
project: {project}
method: grid
metric: {{name: loss}}
parameters:
  lr: {{values: [1, 2, 3, 4]}}
  seed: {{values: [1]}}
"""
PATH = SweepPath("e", "p", "s")


def list_keys(*values: object) -> list[str]:
    """Return a line for each path in JSON values: `runs[].value: null|number`."""
    types: dict[str, set[str]] = {}
    for value in values:
        _collect_types(value, "", types)
    lines = []
    for path, found in sorted(types.items()):
        inside = any(other.startswith((f"{path}.", f"{path}[")) for other in types) or not path
        if not (inside and found <= {"object", "array"}):
            lines.append(f"{path}: {'|'.join(sorted(found))}")
    return lines or [": ".join(("", *types[""]))]


def _collect_types(value: object, path: str, types: dict[str, set[str]]) -> None:
    types.setdefault(path, set()).add(TYPES[type(value)])
    if isinstance(value, dict):
        for key, inner in value.items():
            _collect_types(inner, f"{path}.{key}" if path else key, types)
    elif isinstance(value, list):
        for inner in value:
            _collect_types(inner, f"{path}[]", types)


@dataclass
class Shown:
    """What commands have shown, by title; `names` are replaced, since each run has others."""

    capsys: pytest.CaptureFixture[str]
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)

    def run(self, words: str, *arguments: str, code: int = 0, title: str = "") -> Any:
        """Run a command with `-o json` and keep its JSON; return that."""
        self.capsys.readouterr()
        assert run([*words.split(), *arguments, "-o", "json"]) == code, self.capsys.readouterr().err
        return self.keep(title or words)

    def keep(self, title: str) -> Any:
        """Keep the JSON that was just printed; return it."""
        text = self.capsys.readouterr().out
        for name, word in self.names.items():
            text = text.replace(name, word)
        value = json.loads(text)
        self.values.setdefault(title, []).append(value)
        return value

    def run_csv(self, words: str, *arguments: str) -> None:
        """Run a command with `-o csv` and keep the names of its columns."""
        self.capsys.readouterr()
        assert run([*words.split(), *arguments, "-o", "csv"]) == 0
        self.keep_csv(words)

    def keep_csv(self, title: str) -> None:
        """Keep the names of the columns that were just printed."""
        self.columns[title] = self.capsys.readouterr().out.splitlines()[0]

    def check(self, name: str) -> None:
        """Compare everything with a golden."""
        blocks = [[title, "json", *list_keys(*found)] for title, found in self.values.items()]
        blocks += [[title, "csv", columns] for title, columns in self.columns.items()]
        lines = [
            "\n".join([f"{title} -o {form}", *(f"  {line}" for line in rest)])
            for title, form, *rest in sorted(blocks)
        ]
        check_golden(f"{GOLDENS}/{name}.txt", "\n\n".join(lines) + "\n")


@pytest.fixture
def shown(
    backend: ServedBackend,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shown:
    """Return an empty collection, in a folder of its own that knows the session's backend."""
    for name, value in backend.environment.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Shown(capsys)


def make_sweep(shown: Shown, backend: ServedBackend) -> tuple[str, Client, str]:
    """Create a sweep by the command; return its path, a client and an agent of its server."""
    project = f"keys-{uuid.uuid4().hex[:8]}"
    Path("grid.yaml").write_text(GRID.format(project=project))
    Path("train.py").write_text("import wandb\n")
    path = shown.run("sweep create", "grid.yaml", "--no-check", "--retries", "0")["sweep"]
    sweep_id = path.rpartition("/")[2]
    client = Client.of(backend, project)
    shown.names[sweep_id] = "SWEEP"
    return path, client, client.create_agent(sweep_id)


def take_run(client: Client, agent: str) -> str:
    """Begin the next run of a sweep with its configuration; return its id."""
    [command] = client.heartbeat(agent)
    client.init_run(command["run_id"], config=json.dumps(command["args"]))
    return str(command["run_id"])


def add_lost_agent(path: str) -> str:
    """Write the folder of an agent of this machine whose supervisor is gone; return its name."""
    name = f"{path.rpartition('/')[2]}-a1"
    spec = AgentSpec(name, path, "http://x", str(Path.cwd()), ("0",), {}, 1.0, 1.0)
    folder = AgentFolder(agents_folder() / name, spec)
    folder.save_spec()
    folder.log_path.write_text("a line\n")
    return name


def test_commands_that_ask_a_server(shown: Shown, backend: ServedBackend) -> None:
    path, client, agent = make_sweep(shown, backend)
    finished = take_run(client, agent)
    client.log(finished, [{"_step": 0, "loss": 0.9}, {"_step": 3, "loss": 0.5}])
    client.stream(finished, files={"output.log": {"offset": 0, "content": ["a line\n"]}})
    client.finish(finished)
    failed = take_run(client, agent)
    client.log(failed, [{"_step": 0, "loss": 0.9, "lists": [1]}])
    client.stream(failed, files={"output.log": {"offset": 0, "content": ["no\n"]}})
    client.finish(failed, 1)
    running = take_run(client, agent)
    kept = outputs_folder() / path.rpartition("/")[2] / finished
    kept.mkdir(parents=True)
    (kept / "model").write_text("weights")

    shown.run("sweep list", "--project", path.split("/")[1])  # other tests share the backend
    shown.run("sweep check", "grid.yaml", "--no-check")
    shown.run("results", path)
    shown.run("results", path, "--group", "--by", "best", title="results --group --by best")
    shown.run("results", path, "--verify", code=3, title="results --verify")
    shown.run_csv("results", path)
    shown.run_csv("results --by best", path)
    shown.run_csv("results --group", path)
    shown.run("results get", path)
    shown.run("agents logs", path, "--run", finished, title="agents logs --run")
    add_lost_agent(path)
    shown.run("sweep show", path)
    shown.run("agents list", path)
    shown.run("agents logs", path)
    shown.run("agents down", path)
    for state in ("pause", "resume", "stop"):
        shown.run(f"sweep {state} --yes", path, title=f"sweep {state}")
    shown.run("heal", path)
    shown.run("agents down", path)  # those that it has started
    shown.run("sweep cancel --yes", path, title="sweep cancel")
    client.finish(running, 1)
    shown.run("watch", path, code=3)
    shown.run("agents up", path)
    shown.run("agents scale", "0", path)
    shown.run("down", path)
    shown.run("down", "--all")
    shown.run("sweep delete", path, "--yes")
    shown.run("doctor", "grid.yaml", "--no-check")
    shown.run("plan", "grid.yaml", "--no-check", "--max-time", "1h")
    shown.check("server")


def make_results() -> Results:
    """Return results in which everything that may be there is there."""
    config = {
        "method": "grid",
        "metric": {"name": "loss", "goal": "minimize"},
        "parameters": {"lr": {"values": [1, 2]}, "seed": {"values": [1]}},
    }
    sweep = Sweep(PATH, "n", "t", "FINISHED", config, 3, 4, 1.0, "about", "too many failed")
    attempts = (Attempt(1, "a1", 1.0, 2.0, "signal", 137), Attempt(2, "a1", None, None, None, None))
    good = Run("good", "t", "finished", {"lr": 1, "seed": 1}, {"loss": 0.5}, 0, 1.0, 2.0)
    good = replace(good, attempts=attempts, heals="lost", reused="e/p/old", apart=("other",))
    bad = Run("bad", "t", "failed", {"lr": 2, "seed": 1}, {}, 7, 1.0, None)
    bare = Run("bare", "t", "running", {}, {}, None, None, None)
    found = build_results(sweep, [good, bad, bare])
    return replace(found, unlogged=1, logged=("acc",), dropped="dropped", equal_curves=("a", "b"))


def test_values_that_no_quick_command_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown = Shown(capsys)
    results = make_results()
    show_results(results, "json")
    shown.keep("results of any server")
    show_results(replace(results, best=None, metric=None), "json")
    shown.keep("results of any server")
    show_results(results, "csv")
    shown.keep_csv("results of any server")

    waits = pending(Cause.OBJECT_MISSING, "Secret x is missing", PERMANENT, "make it")
    full = Agent(
        "a1", str(PATH), "ended", 1.0, 2.0, 0, "why", Ending.DRAINED, waits, "run", "0", "node",
        "pod", "/folder", 1, 12, "warm", {"A": "secret"}, "zoe", True,
    )  # fmt: skip
    agents = [full, Agent("a2", str(PATH), "starting", 1.0)]
    for title in ("agents drain", "agents of any executor"):
        show_agents(agents, "json", 3.0)
        shown.keep(title)
    project = read_project(tmp_path)
    anything: Any = None
    there = (full, agents[1])
    launch = Launch(project, find_executor(project), anything, PATH, there)
    say_how_to_reattach(launch, "json")
    shown.keep("up --detach")
    show_ended(str(PATH), Ended(("a1",)), "json", "nothing")
    shown.keep("agents ended")
    config = {"method": "grid"}
    endless = Sweep(PATH, "n", "t", "RUNNING", config, 0, None, None)
    for known in (agents, None):
        show_sweep(Snapshot(endless, (), ()), known, "http://page", "json")
        shown.keep("sweep show of any server")

    parameters = (
        ParameterImportance("lr", 0.9, 0.9, 4),
        ParameterImportance("kind", 0.1, None, 4),
    )
    show_importance(Importance("loss", parameters, 4, 1, 1, ("c",), ("n",)), "e/p/s", "json")
    shown.keep("importance")
    show_importance(Importance("loss", (), 0, 0, 0), "e/p/s", "json")
    shown.keep("importance")

    saved = SavedImage(tmp_path, "registry.example/x:1", "sha256:0", 1)
    emit(saved, "json")
    shown.keep("image save")
    emit(LoadedImage("registry.example/x@sha256:0", 1, 1), "json")
    shown.keep("image load")
    shown.check("values")


def test_commands_of_backends_and_data(shown: Shown, backend: ServedBackend) -> None:
    at = ("--data", str(backend.data))
    for command in ("up", "status", "env"):
        shown.run(f"backend {command}", *at)
    shown.run("backend down", "--data", str(Path.cwd() / "none"))
    name = f"keys-{uuid.uuid4().hex[:8]}"
    first = shown.run("backend user add", name, *at)
    shown.run("backend user add", name, *at)
    shown.run("backend user list", *at)
    shown.run(
        "backend user remove", name, first["id"], *at, title="backend user remove NAME KEY-ID"
    )
    shown.run("backend user remove", name, *at)

    Path("source").mkdir()
    Path("source/file").write_text("1")
    Path("deployer.yaml").write_text("data: {path: /data, folder: held}\n")
    shown.run("data put", "source")
    shown.run("data list")
    shown.run("data get")
    shown.run("data delete", "--yes")
    shown.check("backend_and_data")


class Cluster(Answering):
    """An API server that keeps what is posted, and lists a node with GPUs and forgotten objects."""

    secret: dict[str, Any] | None = None

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        if name == "wandb-secret" and Cluster.secret:
            self.answer(200, Cluster.secret)
        elif name.endswith("s"):
            self.answer(200, {"kind": "List", "metadata": {}, "items": LISTS.get(name, [])})
        else:
            self.answer(404, {"message": "no", "reason": "NotFound", "details": {"name": name}})

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.partition("?")[0].endswith("/secrets"):
            Cluster.secret = sent
        if self.path.partition("?")[0].endswith("/selfsubjectreviews"):
            sent["status"] = {"userInfo": {"username": "me"}}
        self.answer(201, sent)

    def do_PUT(self) -> None:
        self.answer(200, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    do_PATCH = do_PUT

    def do_DELETE(self) -> None:
        self.answer(200, {"kind": "Status", "status": "Success"})


def build_left_over(name: str, owner: str) -> dict[str, Any]:
    """Return a Secret of a sweep that has no agent any more."""
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {**MANAGED_BY, OWNER_LABEL: build_owner(owner).id},
        "annotations": {OWNER_LABEL: owner, SWEEP_PATH_ANNOTATION: f"e/p/{name}"},
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


GPUS = {"nvidia.com/gpu": 2}
LISTS = {
    "nodes": [build_node("node", {"nvidia.com/gpu.product": "T4"}, GPUS)],
    "pods": [build_pod("node", {"nvidia.com/gpu": 1})],
}


def test_commands_of_clusters(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "secret", None)
    with serve_kube(tmp_path, Cluster) as kube:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        shown.run("secret set")
        shown.run("secret show")
        shown.run("secret delete")
        shown.run("drivers status")
        host = KubernetesExecutor("kubernetes", read_project(tmp_path))
        host.target.kube = kube
        place = InCluster(host, host.backend)
        state = place._describe(ClusterBackend("backend", NAMESPACE, True, "key"))
        emit(state.as_json, "json")
        shown.keep("backend status --on kubernetes")
    shown.check("clusters")


@pytest.mark.slow  # Google's libraries take seconds to load
def test_commands_of_the_cloud(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deployer.cli import cloud as commands
    from deployer.executors.gke.orphans import Remains
    from deployer.gke.api.client import Gke
    from deployer.gke.api.compute import CloudDisk, ForwardingRule, TargetPool
    from deployer.gke.api.model import CloudCluster, CloudPool
    from deployer.gke.inventory import Inventory
    from deployer.gke.pricing import load_prices

    shown.run("gke plan", "t4")
    gpus = (("nvidia-tesla-t4", 1),)
    told = (("CODE", "said"),)
    pool = CloudPool("gpu-1", "RUNNING", {"a": "b"}, "n1-standard-8", gpus, True, 0, 2, told)
    cluster = CloudCluster(
        "c", "us-central1-a", "RUNNING", "1.2.3.4", b"", {"deployer-owner": "o"},
        (pool,), told, "2026-01-01T00:00:00Z", "1.34",
    )  # fmt: skip
    gke = Gke("project", None, {})
    for one in (cluster, replace(cluster, labels={})):
        commands._show_cluster(gke, one, "json")
        shown.keep("gke up")
    disk = CloudDisk("d", "us-central1-a", 10, "pd-ssd", {}, "f", ("vm",), "2026", "claim", "ns")
    rule = ForwardingRule("r", "us-central1", "", {}, "f", "pool", "2026")
    inventory = Inventory((), (disk,), (rule,), (TargetPool("t", "us-central1", ("vm",)),), ("z",))
    emit(inventory, "json")
    shown.keep("gke down")
    remains = Remains("c", Owner("o", "me"), inventory, "left over", 1, ("why",), 1.0, 2.0)
    remains = replace(remains, inventory=replace(inventory, clusters=(cluster,)))
    for remain in (remains, replace(remains, owner=None, agents=None)):
        emit(remain.describe(load_prices(tmp_path)), "json")
        shown.keep("orphans cloud[]")
    objects = [build_left_over("mine", "me"), build_left_over("others", "zoe")]
    monkeypatch.setitem(LISTS, "secrets", objects)
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # else Google's library looks for its machines
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with serve_kube(tmp_path, Cluster):
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        shown.run("orphans")
    shown.check("cloud")


def test_errors(shown: Shown) -> None:
    def keep_error(title: str) -> None:
        shown.values[title] = [json.loads(shown.capsys.readouterr().err.splitlines()[-1])]

    assert run(["results", "nowhere", "-o", "json"]) == 1
    keep_error("an error")
    assert run(["results", "--nothing", "-o", "json"]) == 2
    keep_error("a wrong command line")
    assert run(["plan", "nowhere.yaml", "-o", "json"]) == 2
    keep_error("a wrong file")
    both = (Finding("c", "s", "wrong", "fix"), Finding("c", "s", "odd", "fix", Severity.WARNING))
    show_error(DeployerError.join([DeployerError("bad", "fix")], both), as_json=True)
    keep_error("several findings")
    shown.check("errors")


def test_every_command_is_held() -> None:
    titles = {
        line.partition(" -o ")[0]
        for file in (FOLDER / GOLDENS).iterdir()
        for line in file.read_text().splitlines()
        if line and not line.startswith(" ")
    }
    shows_json = {
        " ".join(words)
        for words, command in list_commands().items()
        if not is_group(command) and any("--output" in one.opts for one in command.params)
    }
    assert shows_json - titles == set(ELSEWHERE)
