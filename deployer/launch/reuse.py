"""`up --reuse`: a sweep of what another one has not finished, if its code is still the same."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.registry import find_executor
from deployer.images.code_state import list_changes
from deployer.launch.code import settle_code
from deployer.launch.lock.content import Lock
from deployer.launch.lock.file import find_kept, load_lock
from deployer.launch.lock.reproduction import check_data, list_differences
from deployer.launch.lock.writing import list_apart
from deployer.launch.request import Request
from deployer.launch.resolution import choose_sweep, open_sweep
from deployer.sweeps.rerun import get_whole_snapshot
from deployer.sweeps.reuse import plan_reuse
from deployer.sweeps.sweep_file import dump_config, parse_sweep

LOG = logging.getLogger(__name__)

MOST_NAMED = 10


def prepare_reuse(project: Project, request: Request, text: str) -> tuple[Project, Request]:
    """Return the project for the server of the sweep `text`, and the request for the rest.

    Raises ConfigError where its code or data was another, or nothing of it can be reused.
    """
    choice = choose_sweep(text, project)
    server, path = open_sweep(choice)
    _check_names(project, path.entity, path.project)
    kept = find_kept(str(path), server.name)
    if kept is None:
        said = f"there is no lock file of {path} here, which says what code has run"
        raise ConfigError("--reuse", said, "leave --reuse out")
    lock = load_lock(kept)
    settled = settle_code(project)
    _check_code(settled, request.file, lock, str(path))
    check_data(settled, lock)
    for line in list_differences(settled, lock):
        LOG.warning(line)
    found = plan_reuse(request.sweep, str(request.file), get_whole_snapshot(server, path))
    LOG.info(
        f"reusing {found.reused} of {found.expected} configurations, which {path} has finished"
    )
    sweep = parse_sweep(dump_config(found.config), str(request.file))
    project = replace(choice.config, on=project.on, explicit_on=project.explicit_on)
    return project, replace(request, sweep=sweep, whole=request.sweep)


def _check_names(project: Project, entity: str, name: str) -> None:
    """Refuse to make the rest of a sweep elsewhere: its runs would not be found together."""
    named = (project.entity_for(entity, entity), project.project_for(name, None))
    for flag, wanted, given in zip(("--entity", "--project"), (entity, name), named, strict=True):
        if wanted != given:
            raise ConfigError(flag, f"the sweep that is reused is in {wanted}", f"{flag} {wanted}")


def _check_code(project: Project, file: Path, lock: Lock, path: str) -> None:
    """Refuse code that is not what has run, and name its files; raises ConfigError."""
    if not find_executor(project).has_folder:
        said = "the code is in the image, so whether it is the same is not known"
        raise ConfigError("--reuse", said, "leave --reuse out")
    apart = (*list_apart(project, file), project.folder / lock.file)
    changes = list_changes(lock.code, project.code, project.environment, apart)
    if changes:
        more = f" and {len(changes) - MOST_NAMED} more" if len(changes) > MOST_NAMED else ""
        said = f"the code is not what {path} ran: {', '.join(changes[:MOST_NAMED])}{more}"
        raise ConfigError("--reuse", said, "put it back as it was, or leave --reuse out")
