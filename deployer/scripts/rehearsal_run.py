"""Starts a rehearsal with an environment that holds no keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.config.redaction import is_secret_name
from deployer.scripts.invocation import Invocation
from deployer.scripts.rehearsal import process
from deployer.scripts.unseen import Unseen

PACKAGE = Path(process.__file__).parent
# Names of files with credentials; of others, `is_secret_name` knows the names.
CREDENTIAL_FILES = ("GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE", "NETRC")


def drop_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without keys and files with credentials."""
    return {
        name: value
        for name, value in environment.items()
        if not is_secret_name(name) and name not in CREDENTIAL_FILES
    }


def rehearse(
    invocation: Invocation,
    command_lines: Sequence[Sequence[str]],
    config: Mapping[str, Any],
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
) -> dict[str, Any]:
    """Return the answer of the script's parser to each command line, see `rehearsal/answer.py`.

    Raises Unseen if there is none after so many seconds.
    """
    asked = process.Rehearsal(
        invocation.interpreter,
        invocation.target,
        invocation.module,
        invocation.variables,
        command_lines,
        config,
        seconds,
    )
    try:
        return process.rehearse(asked, str(folder), drop_keys(environment))
    except process.Silent as silent:
        raise Unseen(str(silent)) from None


def find_executable(invocation: Invocation, environment: Mapping[str, str]) -> str:
    """Return the path of what is started; raises Unseen if it is not here."""
    try:
        return process.find_executable(invocation.interpreter[0], environment)
    except process.Silent as silent:
        raise Unseen(str(silent)) from None
