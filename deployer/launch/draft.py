"""What `init` writes: a sweep for a script, and that of a sweep which is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.registry import find_target
from deployer.scripts.script_check import Surroundings, read_script
from deployer.scripts.sweep_draft import Draft, draft_sweep
from deployer.scripts.unseen import Unseen

NOTHING_TO_TRY = "none of its flags looks like a hyperparameter"


def draft_for_script(project: Project, script: str, given: Mapping[str, str]) -> Draft:
    """Return the sweep file of a script of the folder, or of a package with `__main__.py`.

    `given` are values of flags by name. Raises ConfigError where its flags cannot be had.
    """
    program, command = _find_program(project.folder, script)
    config = {"program": program, "parameters": {}}
    if command:
        config["command"] = command
    around = Surroundings(project.folder, find_target(project).run_environment)
    try:
        read = read_script(config, around)
    except Unseen as unseen:
        hint = f"write the file by hand, with program: {program} and parameters:"
        raise ConfigError(script, str(unseen), hint) from unseen
    names = [flag.name for flag in read.flags]
    for name in given:
        if name not in names:
            raise ConfigError("--set", f"{script} has no flag --{name}", f"one of: {names}")
    draft = draft_sweep(program, command, read.flags, read.logged, given)
    if not draft.tried:
        raise ConfigError(script, NOTHING_TO_TRY, "write program: and parameters: by hand")
    return draft


def _find_program(folder: Path, script: str) -> tuple[str, list[str]]:
    """Return the program, and the command that starts it if that is not W&B's own."""
    path = folder / script
    if path.is_file():
        return script, []
    package = script.strip("/").replace("/", ".")
    main = folder / Path(*package.split(".")) / "__main__.py"
    if main.is_file():
        return str(main.relative_to(folder)), ["${interpreter}", "-m", package]
    raise ConfigError(script, "there is no such script", "name a Python file of this folder")
