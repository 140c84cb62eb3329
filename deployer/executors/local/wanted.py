"""How many agents of a sweep are wanted on this machine: a file beside the agents' folders."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from urllib.parse import quote

from deployer.config.deployer_yaml import MOST_REPLICAS
from deployer.errors import AgentError
from deployer.model import Wanted

SUFFIX = ".wanted"


def find_file(agents_folder: Path, sweep_path: str) -> Path:
    """Return the file of a sweep; short ids of different projects may be equal."""
    told_apart = hashlib.sha256(sweep_path.encode()).hexdigest()[:8]
    sweep_id = quote(sweep_path.rpartition("/")[2], safe="")
    return agents_folder / f"{sweep_id}-{told_apart}{SUFFIX}"


def load_wanted(file: Path, sweep_path: str) -> Wanted | None:
    """Read a number; None if there is none. Raises AgentError if it cannot be read."""
    try:
        content = json.loads(file.read_text())
        number, leaving = content["number"], content["leaving"]
        fits = type(number) is int and 0 <= number <= MOST_REPLICAS
        if not (fits and isinstance(leaving, list)):
            raise ValueError(f"{number!r}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        said = f"{file} does not contain a number of agents: {error}"
        raise AgentError(said, f"deployer agents up {sweep_path} --replicas N") from error
    return Wanted(number, frozenset(map(str, leaving)))


def save_wanted(file: Path, wanted: Wanted) -> None:
    """Write a number as a whole, or not at all."""
    content = {"number": wanted.number, "leaving": sorted(wanted.leaving)}
    temporary = file.with_name(f"{file.name}.new")
    temporary.write_text(json.dumps(content))
    os.replace(temporary, file)


def delete_wanted(file: Path) -> None:
    """Delete a number, also one that was only half written."""
    for one in (file, file.with_name(f"{file.name}.new")):
        one.unlink(missing_ok=True)
