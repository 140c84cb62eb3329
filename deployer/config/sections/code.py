"""The section `code:` of deployer.yaml: where the code that agents run comes from; pure."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import AfterValidator, model_validator
from pydantic.dataclasses import dataclass

from deployer.config.field_types import STRICT, Text, refuse

GIT = "git"  # `code: git` is the commit of the folder's own repository
THIS_REPOSITORY = "."
WITH_USER = re.compile(r"https?://[^/]*@.*", re.IGNORECASE)


def _check_address(value: str) -> str:
    """Refuse an address that holds a key or could be taken for a flag, without repeating it."""
    if WITH_USER.fullmatch(value):
        hint = "remove user and token: git asks its own credential helper"
        refuse("an address with credentials", hint)
    if value.startswith("-"):
        refuse("an address cannot begin with a dash", "")
    return value


def _check_revision(value: str) -> str:
    if value.startswith("-") or value.split() != [value]:
        hint = "a branch, a tag or a commit, such as main or v1.0"
        refuse("is not a revision", hint)
    return value


def _check_folder(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts:
        hint = "write it relative to the repository's root"
        refuse("is not a folder of the repository", hint)
    return value


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CodeConfig:
    """Where agents' code comes from: git at a revision; left out: this folder as it is."""

    git: Annotated[Text, AfterValidator(_check_address)] | None = None
    """The repository's address or folder; `.` is the folder of deployer.yaml."""

    revision: Annotated[Text, AfterValidator(_check_revision)] = "HEAD"
    """A branch, a tag or a commit."""

    folder: Annotated[Text, AfterValidator(_check_folder)] | None = None
    """The runs' working folder in the repository. Default: its root; with `git: .`, the folder
    of deployer.yaml.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.git is None and (self.revision != "HEAD" or self.folder is not None):
            hint = "add `git: .` for this folder's own repository, or an address"
            said = "revision and folder need git, which is missing"
            refuse(said, hint)
        return self

    @property
    def own(self) -> bool:
        """Tell whether the repository of deployer.yaml itself is meant."""
        return self.git == THIS_REPOSITORY


def read_word(value: object) -> object:
    """Take `code: git` as `code: {git: .}`; refuse any other word."""
    if isinstance(value, str) and value != GIT:
        hint = f"did you mean `{GIT}`? Another repository is {{git: ADDRESS, revision: main}}"
        refuse(f"'{value}' is not known", hint)
    return {"git": THIS_REPOSITORY} if value == GIT else value
