"""Two users of one backend: ann, who has something of everything, and eve, who knows all its names.

What ann made holds a word that is in no name, and names that eve could not list.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployer.backend.db.accounts import hash_key, key_id_of
from deployer.backend.db.rows import Connection
from tests.backend.artifact_client import MANIFEST, ArtifactClient, md5_of, put
from tests.backend.client import Client, add_user, grid
from tests.conftest import ServedBackend

SECRET = "kestrel"  # in each thing that ann made, and in no name of one
PROJECT, RUN, FILE, COLLECTION, ALIAS = "orchard", "plumtree", "bark.txt", "pearbox", "ripest"
BYTES = f"{SECRET} in a file".encode()
AGENT_KEY = (
    "mutation K($path: String!, $name: String!) {"
    " deployerCreateAgentKey(input: {sweepPath: $path, agentName: $name}) { key } }"
)
FILES = (
    "mutation F($input: CreateRunFilesInput!)"
    " { createRunFiles(input: $input) { files { uploadUrl } } }"
)
IDS = """
query I($project: String!, $run: String!, $sweep: String!, $name: String!) {
  project(name: $project) {
    run(name: $run) { id files { edges { node { id directUrl url(upload: true) } } } }
    sweep(sweepName: $sweep) { id }
    artifactCollectionMembership(name: $name) { artifactCollection { id }
      artifact { id } } } }
"""

Rows = dict[str, set[tuple[Any, ...]]]


@dataclass(frozen=True)
class World:
    """The first user's things by the names that addresses and questions have for them."""

    ann: Client
    eve: Client
    names: Mapping[str, str]
    agent: Client

    def fill(self, text: str) -> str:
        """Put the first user's names in the place of `<name>`."""
        return re.sub(r"<(\w+)>", lambda mark: self.names[mark[1]], text)

    def leaks(self, answer: str, asked: str) -> list[str]:
        """Return what an answer tells that the question did not know."""
        told = (SECRET, RUN, COLLECTION, ALIAS, FILE, self.names["sweep"], self.names["agent_name"])
        return [word for word in told if word in answer and word not in asked]


def make_world(backend: ServedBackend) -> World:
    """Have the first user make one of everything, and add the second, who has a project alone."""
    ann = Client.of(backend, PROJECT)
    sweep = ann.create_sweep({**grid(x=[1, 2]), "description": SECRET})
    worker = _make_agent(ann, sweep, "gardener")
    ann.init_run(RUN, config=f'{{"seed": {{"value": "{SECRET}"}}}}', displayName=SECRET)
    ann.log(RUN, [{"_step": 0, "loss": 0.5, "note": SECRET}])
    upload = _send_file(ann)
    logs = ArtifactClient(ann, RUN)
    client_id = secrets.token_hex(16)
    files = {FILE: BYTES}
    logs.log(
        *(COLLECTION, files, ALIAS),
        clientID=client_id,
        sequenceClientID=f"s{client_id}",
        description=SECRET,
    )
    pending = logs.create("nutbox", "another digest")["id"]
    manifest = ann.ask(
        MANIFEST, artifactID=pending, digest="d", entityName=ann.entity, runName=RUN,
        manifestType="FULL",
    )["createArtifactManifest"]["artifactManifest"]  # fmt: skip
    other = ann.create_sweep(grid(x=[1, 2]))
    eve_name, eve_key = f"eve-{secrets.token_hex(4)}", secrets.token_hex(20)
    add_user(backend, eve_name, eve_key)
    eve = Client(ann.url, eve_key, eve_name, PROJECT)
    eve.ask("mutation M($n: String!) { upsertModel(input: {name: $n}) { inserted } }", n=PROJECT)
    names = {
        "entity": ann.entity, "project": PROJECT, "sweep": sweep, "run": RUN, "file": FILE,
        "collection": COLLECTION, "alias": ALIAS, "client_id": client_id, "pending": pending,
        "manifest": manifest["id"], "upload": upload, "agent_id": worker, "md5": md5_of(BYTES),
        "hex": hashlib.md5(BYTES).hexdigest(), "agent_name": "gardener", "eve": eve_name,
        "eve_key_id": key_id_of(hash_key(eve_key)), "new_key": secrets.token_hex(20),
    }  # fmt: skip
    return World(ann, eve, {**names, **_read_ids(ann, names)}, _agent_of(ann, other, "weeder"))


def _make_agent(ann: Client, sweep: str, name: str) -> str:
    """Return the id of an agent of the first user that has a run."""
    agent = _agent_of(ann, sweep, name)
    made = agent.create_agent(sweep, host=name)
    agent.init_run(agent.heartbeat(made)[0]["run_id"])
    return made


def _agent_of(ann: Client, sweep: str, name: str) -> Client:
    made = ann.ask(AGENT_KEY, path=f"{ann.entity}/{ann.project}/{sweep}", name=name)
    return Client(ann.url, made["deployerCreateAgentKey"]["key"], ann.entity, ann.project)


def _send_file(ann: Client) -> str:
    wanted = {"entityName": ann.entity, "projectName": PROJECT, "runName": RUN, "files": [FILE]}
    url: str = ann.ask(FILES, input=wanted)["createRunFiles"]["files"][0]["uploadUrl"]
    put(url, BYTES)
    return url.removeprefix(ann.url)


def _read_ids(ann: Client, names: Mapping[str, str]) -> dict[str, str]:
    named = {"run": RUN, "sweep": names["sweep"], "name": f"{COLLECTION}:{ALIAS}"}
    found = ann.ask(IDS, **named)["project"]
    (file,) = found["run"]["files"]["edges"]
    member = found["artifactCollectionMembership"]
    download = file["node"]["directUrl"].removeprefix(ann.url)
    return {
        "run_id": found["run"]["id"],
        "file_id": file["node"]["id"],
        "sweep_id": found["sweep"]["id"],
        "artifact_id": member["artifact"]["id"],
        "collection_id": member["artifactCollection"]["id"],
        "download": download,
        "bare_download": download.rpartition("/")[0],
    }


def read_rows(db: Connection) -> Rows:
    """Return all rows of all tables."""
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    return {
        name: {tuple(row) for row in db.execute(f"SELECT * FROM {name}")}
        for (name,) in db.execute(names).fetchall()
    }


def find_harm(db: Connection, before: Rows, own: Mapping[str, set[int]]) -> list[str]:
    """Return what was changed, and what was added to rows that are not one's `own`."""
    after = read_rows(db)
    harm = [f"{name}: {row}" for name in before for row in before[name] - after[name]]
    for name in before:
        columns = [column[1] for column in db.execute(f"PRAGMA table_info({name})")]
        links = [(row[2], row[3]) for row in db.execute(f"PRAGMA foreign_key_list({name})")]
        for row in after[name] - before[name]:
            values = dict(zip(columns, row, strict=True))
            for table, column in links:
                there = {old[0] for old in before[table]} - own.get(table, set())
                if values[column] in there:
                    harm.append(f"{name}: {values} is of another's {table}")
    return harm
