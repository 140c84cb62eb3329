"""Which code a sweep's agents run: decided once, before the plan."""

from __future__ import annotations

import logging
from dataclasses import replace

from deployer.config.deployer_yaml import FILE_NAME
from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.registry import find_executor
from deployer.images.code import resolve_code, warn_about_changes
from deployer.sweeps.records import Records

LOG = logging.getLogger(__name__)


def settle_code(project: Project, sweep_path: str = "") -> Project:
    """Return the project with its commit checked out, if it has `code: git`.

    A sweep that is there already keeps the commit it was made with. Raises ConfigError.
    """
    if not project.code_from_git or project.resolved_code:
        return project
    if not find_executor(project).has_folder:
        said = "`kubernetes.code: image` runs the code in the image, not that of git"
        raise ConfigError(f"{FILE_NAME}: code", said, "remove one of them")
    made = Records.load().of(sweep_path) if sweep_path else ()
    known = next((record.commit for record in made if record.commit), "")
    code = resolve_code(project.folder, project.environment, known)
    if warning := warn_about_changes(project.folder, project.environment):
        LOG.warning(warning)
    LOG.info(f"code: {code.repository or code.folder} at {code.commit}")
    return replace(project, resolved_code=code)
