"""The section `code:` of deployer.yaml: where the code that agents run comes from; pure."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from deployer.config.document.problems import PlaceOf
from deployer.config.sections.section import STRICT, Section, Text
from deployer.errors import ConfigError

GIT = "git"  # `code: git` is the commit of the folder's own repository
THIS_REPOSITORY = "."
WITH_USER = re.compile(r"https?://[^/]*@.*", re.IGNORECASE)


def _check_address(value: str) -> str:
    """Refuse an address that holds a key or could be taken for a flag, without repeating it."""
    if WITH_USER.fullmatch(value):
        hint = "leave user and token out: git asks its own credential helper"
        raise PydanticCustomError("address", "an address with credentials", {"hint": hint})
    if value.startswith("-"):
        raise PydanticCustomError("address", "no address begins with a dash", {"hint": ""})
    return value


def _check_revision(value: str) -> str:
    if value.startswith("-") or value.split() != [value]:
        hint = "a branch, a tag or a commit, such as main or v1.0"
        raise PydanticCustomError("revision", "is no revision", {"hint": hint})
    return value


def _check_folder(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts:
        hint = "write it relative to the repository's root"
        raise PydanticCustomError("folder", "is no folder of the repository", {"hint": hint})
    return value


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CodeConfig:
    """Where agents' code comes from: git at a revision; left out: this folder as it is."""

    git: Annotated[
        Annotated[Text, AfterValidator(_check_address)] | None,
        Field(description="The repository's address or folder; `.`: the one of deployer.yaml."),
    ] = None
    revision: Annotated[
        Annotated[Text, AfterValidator(_check_revision)],
        Field(description="A branch, a tag or a commit."),
    ] = "HEAD"
    folder: Annotated[
        Annotated[Text, AfterValidator(_check_folder)] | None,
        Field(
            description="The folder in the repository in which runs work; left out: its root, "
            "and that of deployer.yaml in its own repository."
        ),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> CodeConfig:
        if self.git is None and (self.revision != "HEAD" or self.folder is not None):
            hint = "add `git: .` for this folder's own repository, or an address"
            said = "revision and folder belong to git, which is missing"
            raise PydanticCustomError("code", "{said}", {"said": said, "hint": hint})
        return self

    @property
    def own(self) -> bool:
        """Tell whether the repository of deployer.yaml itself is meant."""
        return self.git == THIS_REPOSITORY


class CodeSection(Section[CodeConfig]):
    """The section, for which one word may stand."""

    def parse(self, value: object, place_of: PlaceOf | None = None) -> CodeConfig:
        """Read the section; raises ConfigError with every complaint."""
        if isinstance(value, str) and value != GIT:
            place = (place_of or self.place_of)(())
            hint = f"did you mean `{GIT}`? Another repository is {{git: ADDRESS, revision: main}}"
            raise ConfigError(place, f"'{value}' is not known", hint)
        return super().parse({"git": THIS_REPOSITORY} if value == GIT else value, place_of)


SECTION = CodeSection("code", CodeConfig)
