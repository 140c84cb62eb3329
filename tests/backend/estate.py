"""All that a user can have, made on a server, for those who try to reach what is not theirs."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from typing import Any

from deployer.backend.db.database import DATABASE, read_only
from deployer.backend.server.users import identify
from tests.backend.artifact_client import ArtifactClient, get, md5_of, put
from tests.backend.client import Client, grid
from tests.conftest import ServedBackend

WRITE_KEY = (
    "mutation K($path: String!) { deployerCreateAgentKey("
    'input: {sweepPath: $path, agentName: "a"}) { key } }'
)
UPLOAD = (
    "mutation U($entity: String!, $project: String!, $run: String!, $file: String!)"
    " { createRunFiles(input: {entityName: $entity, projectName: $project, runName: $run,"
    " files: [$file]})"
    " { files { uploadUrl } } }"
)
IDS = """
query Ids($project: String!, $run: String!, $version: String!) { project(name: $project) { id
  run(name: $run) { id files { edges { node { id directUrl } } } }
  artifactCollectionMembership(name: $version) { artifactCollection { id }
    artifact { id currentManifest { id file { directUrl } }
      files { edges { node { id directUrl } } } } } } }
"""


@dataclass(frozen=True)
class Estate:
    """One user's things by what they are called, and a word that is in each of their contents."""

    client: Client
    word: str
    names: dict[str, str]


def make_estate(client: Client, run: str = "secret", collection: str = "data") -> Estate:
    """Make one of everything: a sweep with an agent at work, a run that is over, an artifact."""
    word = f"word-{secrets.token_hex(8)}"
    sweep = client.create_sweep({**grid(x=[word, word + "2"]), "description": word})
    agent = client.create_agent(sweep, word)
    at_work = client.heartbeat(agent)[0]["run_id"]
    client.init_run(at_work)
    content = word.encode()
    client.init_run(run, config=json.dumps({"c": {"value": word}}), displayName=word, tags=[word])
    client.log(run, [{"_step": 0, "loss": 1.0, "said": word}])
    client.stream(run, files={"output.log": {"offset": 0, "content": [word]}})
    made = client.ask(UPLOAD, entity=client.entity, run=run, file=f"{run}.txt")
    made = made["createRunFiles"]["files"]
    put(made[0]["uploadUrl"], content)
    log = ArtifactClient(client, run)
    artifact = log.log(
        collection,
        {f"{run}.bin": content},
        f"{run}-best",
        description=word,
        metadata=json.dumps(word),
        clientID=word,
        artifactTypeName="own" if collection == "mine" else "dataset",
    )
    client.finish(run)
    found = client.ask(IDS, run=run, version=f"{collection}:v0")["project"]
    member, file = found["artifactCollectionMembership"], found["run"]["files"]["edges"][0]["node"]
    kept = member["artifact"]["files"]["edges"][0]["node"]
    manifest = member["artifact"]["currentManifest"]
    assert get(file["directUrl"]) == get(kept["directUrl"]) == content
    names = {
        "entity": client.entity,
        "project": client.project,
        "project_id": found["id"],
        "sweep": sweep,
        "sweep_id": client.sweep(sweep)["id"],
        "agent_id": agent,
        "agent": word,
        "run": run,
        "run_id": found["run"]["id"],
        "run_at_work": at_work,
        "file": f"{run}.txt",
        "artifact_file": f"{run}.bin",
        "alias": f"{run}-best",
        "file_id": file["id"],
        "file_url": file["directUrl"],
        "artifact_id": artifact,
        "artifact_file_url": kept["directUrl"],
        "manifest_id": manifest["id"],
        "manifest_url": manifest["file"]["directUrl"],
        "collection": collection,
        "collection_id": member["artifactCollection"]["id"],
        "client_id": word,
        "path": f"{client.entity}/{client.project}/{sweep}",
        "key_id": identify(client.key),
        "md5": hashlib.md5(content).hexdigest(),
        "base64": md5_of(content),
    }
    return Estate(client, word, names)


def read_all(backend: ServedBackend) -> dict[str, list[Any]]:
    """Return every row of every table."""
    with read_only(backend.data / DATABASE) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        return {
            name: sorted(map(repr, map(tuple, db.execute(f"SELECT * FROM {name}"))))
            for name in tables
        }
