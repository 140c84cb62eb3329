"""The section `data:` of deployer.yaml: where data sets are kept, where trainers see them; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from deployer.config.document.problems import PlaceOf
from deployer.config.document.yaml_document import Document
from deployer.config.sections.kubernetes_parts import (
    PATTERN_HINTS,
    AbsolutePath,
    NfsFolder,
    ObjectName,
    Quantity,
)
from deployer.config.sections.section import STRICT, Section, Text

SOURCES = ("claim", "nfs", "url", "folder")
BROUGHT = ("claim", "url", "folder")  # what runs in a cluster see in a claim
OPTIONS = {  # which sources each of the other keys belongs to
    "size": BROUGHT,
    "storage_class": BROUGHT,
    "access_mode": BROUGHT,
    "sub_path": ("claim",),
    "endpoint_url": ("url",),
    "secret": ("url",),
}
URL = re.compile(r"(s3|gs)://[^/@:\s]+(/[^?#\s]*)?")
ENDPOINT = re.compile(r"https?://[^/@\s?#]+(/[^@\s?#]*)?")
# Of the first data set; each by its name has `_NAME` after it: `_TRAIN_IMAGES` of `train-images`.
VARIABLE = "DEPLOYER_DATA_DIR"


def check_url(value: str) -> str:
    """Refuse what is no address, without repeating what may hold a key."""
    if not URL.fullmatch(value):
        hint = "write s3://BUCKET/FOLDER or gs://BUCKET/FOLDER; keys never stand in a file"
        raise PydanticCustomError("url", "is no address of an object store", {"hint": hint})
    if any(part in ("", ".", "..") for part in value.rstrip("/").split("/")[2:]):
        raise PydanticCustomError("url", "has an empty, . or .. part", {"hint": "remove it"})
    return value.rstrip("/")


def check_endpoint(value: str) -> str:
    """Refuse what is no address of a server, without repeating what may hold a key."""
    if not ENDPOINT.fullmatch(value):
        hint = "write it such as http://minio.example:9000; keys never stand in a file"
        raise PydanticCustomError("url", "is no address of a server", {"hint": hint})
    return value.rstrip("/")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DataSet:
    """A data set, kept in exactly one place: claim, nfs, url or folder."""

    name: Annotated[
        ObjectName, Field(description="Its name on the command line; no two have the same.")
    ] = "data"
    path: Annotated[
        AbsolutePath, Field(description="Where pods see it; in none of deployer's own folders.")
    ]
    claim: Annotated[ObjectName | None, Field(description="In a PersistentVolumeClaim.")] = None
    nfs: Annotated[NfsFolder | None, Field(description="In a folder of an NFS server.")] = None
    url: Annotated[
        Annotated[Text, AfterValidator(check_url)] | None,
        Field(
            description="In an object store: s3://BUCKET/FOLDER or gs://BUCKET/FOLDER, "
            "or the address of one archive."
        ),
    ] = None
    folder: Annotated[
        Text | None, Field(description="In a folder of this machine, relative to deployer.yaml.")
    ] = None
    size: Annotated[
        Quantity | None,
        Field(description="How large the claim is, if it is to be made; left out: as needed."),
    ] = None
    storage_class: Annotated[
        Text | None, Field(description="The claim's StorageClass; left out: the default.")
    ] = None
    access_mode: Annotated[
        Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"] | None,
        Field(description="The claim's access mode, if it is to be made; left out: ReadWriteMany."),
    ] = None
    sub_path: Annotated[Text | None, Field(description="A folder inside the claim.")] = None
    endpoint_url: Annotated[
        Annotated[Text, AfterValidator(check_endpoint)] | None,
        Field(description="The object store's server; left out: Amazon's, Google's."),
    ] = None
    secret: Annotated[
        ObjectName | None,
        Field(
            description="The Secret in the cluster with the object store's credentials, "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or for gs:// a service account's JSON."
        ),
    ] = None
    read_only: Annotated[bool, Field(description="Trainers may only read it.")] = True
    unpack: Annotated[bool, Field(description="An archive is unpacked; false: kept as a file.")] = (
        True
    )

    @property
    def source(self) -> str:
        """Return which of claim, nfs, url and folder it is kept in."""
        return next(source for source in SOURCES if getattr(self, source) is not None)

    @model_validator(mode="after")
    def _check(self) -> DataSet:
        given = [source for source in SOURCES if getattr(self, source) is not None]
        if len(given) != 1:
            said = f"is in {' and '.join(given)}" if given else "has no place"
            _refuse(said, f"give exactly one of {', '.join(SOURCES)}")
        for option, sources in OPTIONS.items():
            if getattr(self, option) is not None and given[0] not in sources:
                owner = " or ".join(sources)
                _refuse(f"{option}: belongs to {owner}, and this is a {given[0]}", "remove it")
        if f"{self.path}/".startswith("/deployer/"):
            _refuse("path: folders in /deployer are deployer's own", "choose another")
        if self.path.strip("/") == "" or ".." in self.path.split("/"):
            _refuse(f"path: nothing can be mounted at {self.path}", "write one such as /data")
        parts = (self.sub_path or "part").split("/")
        if any(part in ("", ".", "..") for part in parts):
            _refuse("sub_path: is no folder inside the claim", "write one such as images/train")
        return self


def _refuse(said: str, hint: str) -> None:
    raise PydanticCustomError("data", "{said}", {"said": said, "hint": hint})


def _check_together(sets: tuple[DataSet, ...]) -> tuple[DataSet, ...]:
    for what in ("name", "path"):
        seen = [getattr(one, what) for one in sets]
        twice = next((value for value in seen if seen.count(value) > 1), None)
        if twice is not None:
            _refuse(f"two have the {what} '{twice}'", f"give each a {what} of its own")
    return sets


def _to_list(value: object) -> object:
    """Take one mapping as a list of one."""
    return [value] if isinstance(value, dict) else value


DataSets = Annotated[
    tuple[DataSet, ...],
    BeforeValidator(_to_list, json_schema_input_type=DataSet | tuple[DataSet, ...]),
    AfterValidator(_check_together),
]


@plain_dataclass(frozen=True)
class DataSection(Section[tuple[DataSet, ...]]):
    """The section, which is a list where others are mappings."""

    @cached_property
    def adapter(self) -> TypeAdapter[tuple[DataSet, ...]]:
        """Return what reads the list."""
        return TypeAdapter(DataSets)

    def parse(self, value: object, place_of: PlaceOf | None = None) -> tuple[DataSet, ...]:
        """Read a list, or one mapping; raises ConfigError with every complaint."""
        places = place_of or self.place_of
        if not isinstance(value, dict):
            return super().parse(value or [], places)
        return super().parse(value, lambda path: places(path[1:] if path[:1] == ("[0]",) else path))

    def read(self, document: Document | None) -> tuple[DataSet, ...]:
        """Read the section of deployer.yaml; nothing without one."""
        if document is None or not isinstance(document.value, dict):
            return ()
        value = document.value.get(self.name)
        return self.parse(value, lambda inside: document.place_of((self.name, *inside)))


def list_variables(
    sets: Sequence[DataSet], places: Mapping[str, str] | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the variables by which runs find data sets: `VARIABLE` the first, others by name.

    `places` are their folders by name; left out: where pods see them.
    """
    found = {one.name: (places or {}).get(one.name, one.path) for one in sets}
    named = [(f"{VARIABLE}_{name.upper().replace('-', '_')}", at) for name, at in found.items()]
    return ((VARIABLE, found[sets[0].name]), *named) if sets else ()


SECTION = DataSection(
    "data",
    DataSet,  # type: ignore[arg-type]  # the class of one, whose keys hints are about
    {"nfs": NfsFolder},
    PATTERN_HINTS,
)


def parse_data(section: object) -> tuple[DataSet, ...]:
    """Read the section `data:`; raises ConfigError with every complaint."""
    return SECTION.parse(section)
