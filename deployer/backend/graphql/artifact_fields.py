"""What filters and orders may name of artifacts and their collections."""

from __future__ import annotations

from deployer.backend.db.artifacts import Artifact, Collection
from deployer.backend.graphql.fields import Fields
from deployer.backend.parsing import read_object

COLLECTION_FIELDS: Fields[Collection] = Fields(
    {
        "id": lambda row: row.id,
        "name": lambda row: row.name,
        "type": lambda row: row.type,
        "description": lambda row: row.description,
        "tag": lambda row: row.tag_names,
        "tags": lambda row: row.tag_names,
    },
    {
        "created_at": lambda row: row.created_at,
        "updated_at": lambda row: row.updated_at,
    },
    {},
)
ARTIFACT_FIELDS: Fields[Artifact] = Fields(
    {
        "state": lambda row: "COMMITTED" if row.committed else "PENDING",
        "version": lambda row: row.version,
        "version_index": lambda row: row.version,
        "digest": lambda row: row.digest,
        "description": lambda row: row.description,
        "size": lambda row: row.size_bytes,
        "file_count": lambda row: row.file_count,
        "tag": lambda row: row.tag_names,
        "tags": lambda row: row.tag_names,
    },
    {
        "created_at": lambda row: row.created_at,
        "updated_at": lambda row: row.updated_at,
    },
    {"metadata": lambda row: (read_object(row.metadata or "{}"),)},
)
