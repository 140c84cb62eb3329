"""Logs and reads artifacts by the SDK's own operations, one step at a time."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests  # noqa: TID251 - a test is a client of its own

from tests.backend.client import Client

CREATE = """
mutation CreateArtifact($input: CreateArtifactInput!) { createArtifact(input: $input) {
  artifact { id state artifactSequence { latestArtifact { id } } } } }
"""
MANIFEST = """
mutation CreateArtifactManifest($artifactID: ID!, $digest: String!, $entityName: String!,
  $project: String!, $runName: String!, $manifestType: ArtifactManifestType!) {
  createArtifactManifest(input: {artifactID: $artifactID, name: "wandb_manifest.json",
    digest: $digest, entityName: $entityName, projectName: $project, runName: $runName,
    type: $manifestType}) {
      artifactManifest { id file { id uploadUrl uploadHeaders } } } }
"""
FILES = """
mutation CreateArtifactFiles($input: CreateArtifactFilesInput!) {
  createArtifactFiles(input: $input) { files { edges { node {
    storagePath uploadUrl uploadHeaders uploadMultipartUrls { uploadID } artifact { id } } } } } }
"""
COMMIT = """
mutation CommitArtifact($artifactID: ID!) { commitArtifact(input: {artifactID: $artifactID}) {
  artifact { id digest } } }
"""
DELETE = (
    "mutation DeleteArtifact($input: DeleteArtifactInput!)"
    " { deleteArtifact(input: $input) { artifact { id } } }"
)
NAMED = """
query ArtifactMembershipByName($project: String!, $name: String!) { project(name: $project) {
  artifactCollectionMembership(name: $name) { versionIndex aliases { alias } artifact {
    id state digest size fileCount commitHash metadata description tags { name }
    artifactType { name } artifactSequence { name }
    createdBy { __typename ... on Run { name } } usedBy { edges { node { name } } }
    currentManifest { file { directUrl } } }
    files { edges { node { displayName directUrl url sizeBytes md5 storagePath } } } } } }
"""
COLLECTION = """
query C($project: String!, $name: String!, $after: String, $first: Int, $filters: JSONString,
        $order: String) {
  project(name: $project) { artifactCollection(name: $name) { __typename id
    artifacts(after: $after, first: $first, filters: $filters, order: $order) {
      totalCount pageInfo { endCursor hasNextPage } edges { version node { id digest } } } } } }
"""
RUN_ARTIFACTS = (
    "query R($project: String!, $run: String!) { project(name: $project) { run(name: $run) {"
    " out: outputArtifacts { edges { node { versionIndex } } totalCount }"
    " in: inputArtifacts { edges { node { versionIndex } } totalCount } } } }"
)


def md5_of(content: bytes) -> str:
    """Return a digest as W&B writes it."""
    return base64.b64encode(hashlib.md5(content).digest()).decode()


@dataclass(frozen=True)
class ArtifactClient:
    """Works for one run of a client."""

    client: Client
    run: str = "r"

    def create(self, name: str, digest: str, **extra: Any) -> dict[str, Any]:
        """Begin a version, or get the one that has this content."""
        wanted = {
            "artifactTypeName": "dataset",
            "artifactCollectionName": name,
            "entityName": self.client.entity,
            "projectName": self.client.project,
            "runName": self.run,
            "digest": digest,
            "digestAlgorithm": "MANIFEST_MD5",
            "enableDigestDeduplication": True,
            **extra,
        }
        made: dict[str, Any] = self.client.ask(CREATE, input=wanted)["createArtifact"]["artifact"]
        return made

    def promise(self, artifact_id: str, files: Mapping[str, bytes]) -> list[str | None]:
        """Announce files and return where each is to be sent, None for what is there already."""
        specs = [
            {"artifactID": artifact_id, "name": name, "md5": md5_of(content)}
            for name, content in files.items()
        ]
        reply = self.client.ask(FILES, input={"artifactFiles": specs, "storageLayout": "V2"})
        return [
            edge["node"]["uploadUrl"] for edge in reply["createArtifactFiles"]["files"]["edges"]
        ]

    def manifest_url(self, artifact_id: str, content: bytes, kind: str = "FULL") -> str:
        """Announce the manifest and return where it is to be sent."""
        reply = self.client.ask(
            MANIFEST,
            artifactID=artifact_id,
            digest=md5_of(content),
            entityName=self.client.entity,
            runName=self.run,
            manifestType=kind,
        )
        return str(reply["createArtifactManifest"]["artifactManifest"]["file"]["uploadUrl"])

    def send_manifest(
        self, artifact_id: str, files: Mapping[str, bytes], kind: str = "FULL", **refs: str
    ) -> None:
        """Send the list of an artifact's files and references."""
        content = manifest_text(files, refs)
        put(self.manifest_url(artifact_id, content, kind), content)

    def commit(self, artifact_id: str) -> requests.Response:
        """Ask for the commit."""
        return self.client.post(COMMIT, artifactID=artifact_id)

    def log(self, name: str, files: Mapping[str, bytes], *aliases: str, **extra: Any) -> str:
        """Log a version as the SDK does and return its id."""
        digest = hashlib.md5(manifest_text(files, {})).hexdigest()
        wanted = [{"artifactCollectionName": name, "alias": alias} for alias in aliases]
        made = self.create(name, digest, aliases=wanted, **extra)
        if made["state"] == "PENDING":
            for url, content in zip(self.promise(made["id"], files), files.values(), strict=True):
                if url:
                    put(url, content)
            self.send_manifest(made["id"], files)
            assert self.commit(made["id"]).status_code == 200
        return str(made["id"])

    def find(self, name: str) -> dict[str, Any] | None:
        """Read a version by `collection:alias`."""
        reply = self.client.ask(NAMED, name=name)["project"]
        found: dict[str, Any] | None = reply["artifactCollectionMembership"]
        return found

    def read(self, name: str) -> dict[str, bytes]:
        """Download a version's files, without a key, by path."""
        found = self.find(name)
        assert found is not None
        nodes = [edge["node"] for edge in found["files"]["edges"]]
        return {node["displayName"]: get(node["directUrl"]) for node in nodes}

    def versions(self, name: str, **page: Any) -> dict[str, Any]:
        """Read one page of a collection."""
        reply = self.client.ask(COLLECTION, name=name, **page)
        found: dict[str, Any] = reply["project"]["artifactCollection"]
        return found


def aliases_of(log: ArtifactClient, name: str) -> list[str]:
    """Read the aliases of the version `collection:alias`."""
    found = log.find(name)
    assert found is not None
    return sorted(part["alias"] for part in found["aliases"])


def manifest_text(files: Mapping[str, bytes], refs: Mapping[str, str]) -> bytes:
    """Return a manifest as the SDK writes it."""
    contents: dict[str, Any] = {
        name: {"digest": md5_of(content), "size": len(content)} for name, content in files.items()
    }
    for name, ref in refs.items():
        contents[name] = {"digest": "etag", "size": 7, "ref": ref}
    return json.dumps(
        {
            "version": 1,
            "storagePolicy": "wandb-storage-policy-v1",
            "storagePolicyConfig": {"storageLayout": "V2"},
            "contents": contents,
        }
    ).encode()


def put(url: str, content: bytes) -> None:
    """Send bytes to a signed address, without a key."""
    reply = requests.put(url, data=content, timeout=10)
    assert reply.status_code == 200, reply.text


def get(url: str) -> bytes:
    """Fetch bytes from a signed address, without a key."""
    reply = requests.get(url, timeout=10)
    assert reply.status_code == 200, reply.text
    return reply.content
