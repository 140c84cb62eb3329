"""The section `data:` of deployer.yaml: where data sets are, where trainers see them; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator
from pydantic.dataclasses import dataclass

from deployer.config.check import STRICT, Text, refuse, refuse_twice
from deployer.config.kubernetes import (
    AbsolutePath,
    NfsFolder,
    ObjectName,
    Quantity,
)

SOURCES = ("claim", "nfs", "url", "folder")
BROUGHT = ("claim", "url", "folder")  # sources that a cluster mounts as a claim
OPTIONS = {  # valid sources of each other key
    "size": BROUGHT,
    "storage_class": BROUGHT,
    "access_mode": BROUGHT,
    "sub_path": ("claim",),
    "endpoint_url": ("url",),
    "secret": ("url",),
}
URL = re.compile(r"(s3|gs)://[^/@:\s]+(/[^?#\s]*)?")
ENDPOINT = re.compile(r"https?://[^/@\s?#]+(/[^@\s?#]*)?")
# The variable of the first data set. The others append their names: `_TRAIN_IMAGES` for
# `train-images`.
VARIABLE = "DEPLOYER_DATA_DIR"


def check_url(value: str) -> str:
    """Refuse an invalid address, without repeating a key that it may contain."""
    if not URL.fullmatch(value):
        hint = "write s3://BUCKET/FOLDER or gs://BUCKET/FOLDER; keys do not belong in a file"
        refuse("is not the address of an object store", hint)
    if any(part in ("", ".", "..") for part in value.rstrip("/").split("/")[2:]):
        refuse("has an empty, . or .. part", "remove it")
    return value.rstrip("/")


def check_endpoint(value: str) -> str:
    """Refuse an invalid server address, without repeating a key that it may contain."""
    if not ENDPOINT.fullmatch(value):
        hint = "write an address such as http://minio.example:9000; keys do not belong in a file"
        refuse("is not the address of a server", hint)
    return value.rstrip("/")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DataSet:
    """A data set, kept in exactly one place: claim, nfs, url or folder."""

    name: ObjectName = "data"
    """Its unique name on the command line."""

    path: AbsolutePath
    """Its path in pods, outside deployer's own folders."""

    claim: ObjectName | None = None
    """The PersistentVolumeClaim that holds it."""

    nfs: NfsFolder | None = None
    """The folder of an NFS server that holds it."""

    url: Annotated[Text, AfterValidator(check_url)] | None = None
    """Its address in an object store: s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, or one archive
    there.
    """

    folder: Text | None = None
    """The local folder that holds it, relative to deployer.yaml."""

    size: Quantity | None = None
    """The size of a new claim; default: as needed."""

    storage_class: Text | None = None
    """The claim's StorageClass; default: the cluster's."""

    access_mode: (
        Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"] | None
    ) = None
    """The access mode of a new claim; default: ReadWriteMany."""

    sub_path: Text | None = None
    """A folder inside the claim."""

    endpoint_url: Annotated[Text, AfterValidator(check_endpoint)] | None = None
    """The object store's server; default: Amazon's or Google's."""

    secret: ObjectName | None = None
    """The cluster's Secret with the object store's credentials: AWS_ACCESS_KEY_ID and
    AWS_SECRET_ACCESS_KEY, or for gs:// a service account's JSON.
    """

    read_only: bool = True
    """Mount it read-only."""

    unpack: bool = True
    """Unpack an archive; with false, keep it as a file."""

    @property
    def source(self) -> str:
        """Return the kind of its source: claim, nfs, url or folder."""
        return next(source for source in SOURCES if getattr(self, source) is not None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [source for source in SOURCES if getattr(self, source) is not None]
        if len(given) != 1:
            said = f"is in {' and '.join(given)}" if given else "has no source"
            refuse(said, f"give exactly one of {', '.join(SOURCES)}")
        for option, sources in OPTIONS.items():
            if getattr(self, option) is not None and given[0] not in sources:
                owner = " or ".join(sources)
                refuse(
                    f"{option}: applies only to {owner}, and this data set has {given[0]}",
                    "remove it",
                )
        if f"{self.path}/".startswith("/deployer/"):
            refuse("path: /deployer is reserved for deployer", "choose another")
        if self.path.strip("/") == "" or ".." in self.path.split("/"):
            refuse(f"path: nothing can be mounted at {self.path}", "write a path such as /data")
        parts = (self.sub_path or "part").split("/")
        if any(part in ("", ".", "..") for part in parts):
            refuse(
                "sub_path: is not a folder inside the claim", "write a path such as images/train"
            )
        return self


def _check_together(sets: tuple[DataSet, ...]) -> tuple[DataSet, ...]:
    refuse_twice(sets)
    return sets


def _to_list(value: object) -> object:
    if not isinstance(value, dict | list | tuple):
        refuse(f"{value!r} is not a list of mappings", "write `name: value` pairs below it")
    return (value,) if isinstance(value, dict) else tuple(value)


DataSets = Annotated[
    tuple[DataSet, ...],
    BeforeValidator(_to_list, json_schema_input_type=DataSet | tuple[DataSet, ...]),
    AfterValidator(_check_together),
]


def list_variables(
    sets: Sequence[DataSet], places: Mapping[str, str] | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the variables with the paths of data sets: `VARIABLE` for the first, then by name.

    `places` maps names to folders; by default, paths in pods.
    """
    found = {one.name: (places or {}).get(one.name, one.path) for one in sets}
    named = [(f"{VARIABLE}_{name.upper().replace('-', '_')}", at) for name, at in found.items()]
    return ((VARIABLE, found[sets[0].name]), *named) if sets else ()
