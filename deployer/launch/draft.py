"""What `init` writes: a sweep for a script, and that of a sweep which is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.registry import find_executor
from deployer.scripts.flags import Flag
from deployer.scripts.script_check import Report, Surroundings, check_script, read_script
from deployer.scripts.sweep_draft import Draft, Start, draft_sweep, read_value, write_by_hand
from deployer.scripts.unseen import Unseen
from deployer.sweeps.sweep_file import parse_sweep

NO_FLAGS = "its parser lists no flags"
NOTHING_TO_TRY = "none of its flags looks like a hyperparameter"


class NotDrafted(ConfigError):
    """Nothing can be written for a script; `lines` are those of a sweep file to copy."""

    def __init__(self, script: str, said: str, start: Start) -> None:
        super().__init__(script, said, "copy the lines above into sweep.yaml, with your own flags")
        self.lines = write_by_hand(start)


def draft_for_script(
    project: Project, script: str, given: Mapping[str, str], words: Sequence[str] = ()
) -> Draft:
    """Return the sweep file of a script of the folder, of a package or of a module.

    `given` are values of flags by name; `words` come before the flags, such as a subcommand. The
    script's parser accepts what is written. Raises ConfigError where its flags cannot be had.
    """
    start = find_start(project.folder, script, tuple(words))
    around = Surroundings(project.folder, find_executor(project).run_environment)
    config = {"program": start.program, "parameters": {}, "command": start.build_command()}
    try:
        read = read_script(config, around)
    except Unseen as unseen:
        raise NotDrafted(script, str(unseen), start) from unseen
    if read.subcommands and not set(read.subcommands) & set(words):
        return Draft("", (), 0, read.subcommands)
    start = replace(start, style=read.style)
    _check_given(script, given, read.flags)
    draft = draft_sweep(start, read.flags, read.logged, given)
    if draft.needed:
        return draft
    report = _check(draft, around)
    refused = {one.path[1] for one in report.problems if one.severity == "error" and one.path[1:]}
    if refused:
        draft = draft_sweep(start, read.flags, read.logged, given, tuple(refused))
        report = _check(draft, around)
    if not draft.tried:
        raise NotDrafted(script, NOTHING_TO_TRY if read.flags else NO_FLAGS, start)
    for one in report.problems:
        if one.severity == "error":
            raise NotDrafted(script, one.message, start)
    return draft


def _check(draft: Draft, around: Surroundings) -> Report:
    """Return what the script says of a draft."""
    if not draft.tried:
        return Report()
    return check_script(parse_sweep(draft.text, "the draft").config, around)


def _check_given(script: str, given: Mapping[str, str], flags: Sequence[Flag]) -> None:
    known = {flag.name: flag for flag in flags}
    for name, text in given.items():
        if name not in known:
            raise ConfigError("--set", f"{script} has no flag --{name}", f"one of: {[*known]}")
        flag, value = known[name], read_value(text)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if flag.type in ("int", "float") and not number:
            said = f"--{name} takes {flag.type}, not '{text}'"
            raise ConfigError("--set", said, f"--set {name}={flag.default or 1}")


def find_start(folder: Path, script: str, words: tuple[str, ...] = ()) -> Start:
    """Return how a script, a package with `__main__.py` or a module such as pkg.train starts.

    Raises ConfigError if there is no such file.
    """
    if (folder / script).is_file():
        return Start(script, words=words)
    module = script.strip("/").replace("/", ".")
    base = folder / Path(*module.split("."))
    for file in (base / "__main__.py", base.with_name(base.name + ".py")):
        if file.is_file():
            return Start(str(file.relative_to(folder)), ("-m", module), words)
    hint = "name a Python file of this folder, or a package such as pkg or pkg.train"
    raise ConfigError(script, "script not found", hint)
