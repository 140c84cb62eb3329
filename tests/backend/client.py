"""A client that speaks the SDK's own operations, so that tests can say what the SDK would."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests  # noqa: TID251 - a test is a client of its own
import yaml

from deployer.wandb_api import accounts
from deployer.wandb_api import client as wandb_client
from tests.conftest import ServedBackend

UPSERT_SWEEP = """
mutation UpsertSweep($config: String, $project: String, $id: ID, $state: String, $mutation: String)
{ upsertSweep(input: {config: $config, projectName: $project, id: $id, state: $state,
                      clientMutationId: $mutation})
  { sweep { id name state } configValidationWarnings } }
"""
CREATE_AGENT = """
mutation CreateAgent($project: String, $sweep: String!, $host: String!)
{ createAgent(input: {host: $host, projectName: $project, sweep: $sweep}) { agent { id } } }
"""
HEARTBEAT = """
mutation Heartbeat($id: ID!, $metrics: JSONString, $runState: JSONString)
{ agentHeartbeat(input: {id: $id, metrics: $metrics, runState: $runState})
  { agent { id } commands } }
"""
UPSERT_BUCKET = """
mutation UpsertBucket($name: String, $id: String, $project: String, $config: JSONString,
                      $host: String, $sweep: String, $tags: [String!], $displayName: String)
{ upsertBucket(input: {name: $name, id: $id, modelName: $project, config: $config, host: $host,
                       sweep: $sweep, tags: $tags, displayName: $displayName})
  { bucket { id name displayName config historyLineCount sweepName tags } inserted } }
"""
RUN = """
query Run($project: String!, $name: String!) { project(name: $project) { run(name: $name) {
  id name displayName jobType tags state exitcode config summaryMetrics
  historyLineCount logLineCount shouldStop
  history files { edges { node { id name directUrl sizeBytes md5 } } } } } }
"""
CREATE_FILES = """
mutation CreateRunFiles($entity: String!, $project: String!, $run: String!, $files: [String!]!)
{ createRunFiles(input: {entityName: $entity, projectName: $project, runName: $run, files: $files})
  { files { uploadUrl } } }
"""
SWEEP = """
query Sweep($project: String!, $sweep: String!) { project(name: $project) {
  sweep(sweepName: $sweep) { id name state runCount runCountExpected bestLoss method config
    runs { edges { node { id name state exitcode config } } }
    agents { edges { node { id name host state totalRuns } } } } } }
"""


def add_user(backend: ServedBackend, name: str, key: str) -> None:
    """Have the backend's own user add another, or a key of another."""
    accounts.add_user(wandb_client.Client(backend.url, backend.key), name, key)


@dataclass(frozen=True)
class Client:
    """Requests with one key in one project."""

    url: str
    key: str
    entity: str
    project: str = "tests"

    @classmethod
    def of(cls, backend: ServedBackend, project: str) -> Client:
        """Return a client with the key of the backend's own user."""
        return cls(backend.url, backend.key, backend.entity, project)

    def post(self, query: str, **variables: Any) -> requests.Response:
        """Send a GraphQL document."""
        body = {"query": query, "variables": {"project": self.project, **variables}}
        return requests.post(f"{self.url}/graphql", json=body, auth=("api", self.key), timeout=30)

    def ask(self, query: str, **variables: Any) -> Any:
        """Send a GraphQL document that must succeed and return its data."""
        reply = self.post(query, **variables)
        assert reply.status_code == 200, reply.text
        return reply.json()["data"]

    def create_sweep(self, config: Mapping[str, Any], **variables: Any) -> str:
        """Create a sweep and return its short id."""
        made = self.ask(UPSERT_SWEEP, config=yaml.safe_dump(dict(config)), **variables)
        return str(made["upsertSweep"]["sweep"]["name"])

    def set_state(self, sweep: str, state: str) -> None:
        """Pause, resume, stop or cancel."""
        self.ask(UPSERT_SWEEP, id=self.sweep(sweep)["id"], state=state)

    def create_agent(self, sweep: str, host: str = "host") -> str:
        """Join a sweep and return the agent's id."""
        made = self.ask(CREATE_AGENT, sweep=sweep, host=host)
        return str(made["createAgent"]["agent"]["id"])

    def heartbeat(self, agent: str, alive: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Report living runs and return the commands."""
        state = json.dumps(dict.fromkeys(alive, True))
        reply = self.ask(HEARTBEAT, id=agent, metrics="{}", runState=state)
        commands: list[dict[str, Any]] = json.loads(reply["agentHeartbeat"]["commands"])
        return commands

    def init_run(self, name: str, **variables: Any) -> dict[str, Any]:
        """Do what `wandb.init` does."""
        variables = {"config": "{}", "host": "host", **variables}
        bucket: dict[str, Any] = self.ask(UPSERT_BUCKET, name=name, **variables)["upsertBucket"]
        return bucket["bucket"]

    def stream(self, run: str, **chunk: Any) -> requests.Response:
        """Send one chunk of a run's file stream."""
        return requests.post(
            f"{self.url}/files/{self.entity}/{self.project}/{run}/file_stream",
            data=json.dumps(chunk),
            auth=("api", self.key),
            timeout=30,
        )

    def log(self, run: str, rows: Sequence[Mapping[str, Any]], offset: int = 0) -> None:
        """Send history rows, and the last one as summary."""
        files = {
            "wandb-history.jsonl": {"offset": offset, "content": [json.dumps(r) for r in rows]},
            "wandb-summary.json": {"offset": 0, "content": [json.dumps(rows[-1])]},
        }
        assert self.stream(run, files=files).status_code == 200

    def upload(self, run: str, name: str, content: bytes) -> None:
        """Send a file of a run."""
        made = self.ask(CREATE_FILES, entity=self.entity, run=run, files=[name])
        [file] = made["createRunFiles"]["files"]
        requests.put(file["uploadUrl"], data=content, timeout=30)

    def finish(self, run: str, exit_code: int = 0) -> None:
        """Send the exit record."""
        assert self.stream(run, complete=True, exitcode=exit_code).status_code == 200

    def run(self, name: str) -> dict[str, Any]:
        """Read a run."""
        found: dict[str, Any] = self.ask(RUN, name=name)["project"]["run"]
        return found

    def sweep(self, name: str) -> dict[str, Any]:
        """Read a sweep with its runs and agents."""
        found: dict[str, Any] = self.ask(SWEEP, sweep=name)["project"]["sweep"]
        return found

    def work_once(self, agent: str, exit_code: int = 0, **metrics: Any) -> dict[str, Any] | None:
        """Take one run, log, end it; return its command, or None if there was none."""
        commands = self.heartbeat(agent)
        if not commands or commands[0]["type"] == "exit":
            return None
        name = commands[0]["run_id"]
        self.init_run(name)
        self.log(name, [{"_step": 0, **metrics}])
        self.finish(name, exit_code)
        return commands[0]


def grid(**parameters: Sequence[Any]) -> dict[str, Any]:
    """Return the configuration of a grid sweep."""
    return {
        "program": "train.py",
        "method": "grid",
        "metric": {"name": "loss", "goal": "minimize"},
        "parameters": {name: {"values": list(values)} for name, values in parameters.items()},
    }
