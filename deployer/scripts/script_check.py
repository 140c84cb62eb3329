"""Checks that a sweep's script accepts the agent's commands and logs its metric."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployer.config.redaction import is_secret_name
from deployer.errors import Finding
from deployer.scripts.commands import (
    MOST_VALUES,
    list_corners,
    list_drawn,
    list_unset,
    render_commands,
)
from deployer.scripts.missing_modules import list_remedies
from deployer.scripts.rehearsal.process import (
    OWN_FOLDERS,
    PYTHON,
    SECONDS,
    Silent,
    gets_no_words,
    refuse_unseen,
    rehearse,
)
from deployer.scripts.rehearsal.verdict import (
    RAISED,
    Complaint,
    Rehearsal,
    find_flag,
    find_place,
    judge,
)
from deployer.scripts.script_text import (
    OFFLINE,
    OTHER_PROJECT,
    Logged,
    check_metric,
    find_entry,
    find_line,
    find_logged,
    list_project_modules,
    reads_config,
)
from deployer.scripts.sweep_draft import Flag, parse_flag
from deployer.sweeps.keys import doubt, problem

ONLINE = "remove it: a run that is not online never reaches its sweep"
OF_SWEEP = "remove it: a run of a sweep belongs to the sweep's project"
OF_WANDB = (ONLINE, OF_SWEEP)  # hints that do not apply to a script without W&B


class Unseen(Exception):
    """The script, or its flags, cannot be determined."""


@dataclass(frozen=True)
class Surroundings:
    """A script's folder and environment, and whether it uses the packages of this machine."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    same_packages: bool = True


@dataclass(frozen=True)
class Report:
    """Errors and warnings; `not_checked` says why the parser was not run, else empty."""

    script: str = ""
    problems: tuple[Finding, ...] = ()
    not_checked: str = ""

    @property
    def raised(self) -> bool:
        return any(problem.fix.endswith(RAISED) for problem in self.problems)


@dataclass(frozen=True)
class Reading:
    """The flags of a script's parser, and the names that the script logs.

    `subcommands` are the choices; `style` is hydra for key=value.
    """

    flags: tuple[Flag, ...]
    logged: Logged
    subcommands: tuple[str, ...] = ()
    style: str = ""


def check_script(
    config: Mapping[str, Any], around: Surroundings, seconds: float = SECONDS
) -> Report:
    """Return the findings about a sweep's script, which runs until it has parsed its flags."""
    return _Check(config, around, seconds).report()


def read_script(
    config: Mapping[str, Any], around: Surroundings, seconds: float = SECONDS
) -> Reading:
    """Return the flags of the script that a sweep's command starts, and the names it logs.

    Raises Unseen if they are unavailable.
    """
    return _Check(config, around, seconds).read()


class _Check:
    """One sweep and its script."""

    def __init__(self, config: Mapping[str, Any], around: Surroundings, seconds: float) -> None:
        self._config, self._around, self._seconds = config, around, seconds
        # Keep secrets out of commands too; the value of a named one is unknown here.
        self._shown = {k: v for k, v in around.environment.items() if not is_secret_name(k)}
        unset = list_unset(config, self._shown)
        self._unset = [name for name in unset if name not in OWN_FOLDERS]  # each run has its own
        self._corners = list_corners(config)
        self._commands = render_commands(config, self._corners, self._shown)
        words = [*self._commands.before, *self._commands.after]
        self._script, entry = find_entry(words, around.folder)
        self._wordless = entry is not None and gets_no_words(self._commands)
        self._modules = list_project_modules(entry, around.folder) if entry else []

    def report(self) -> Report:
        static = [
            *check_metric(self._config, find_logged(self._modules), self._script),
            *self._list_detours(),
            *self._list_unset(),
            *self._list_cut(),
        ]
        missing = list(self._find_missing_program())
        if missing:
            return Report(self._script, (*missing, *static))
        try:
            refuse_unseen(self._commands.before)
            if self._wordless:
                return Report(self._script, tuple(static))
            answer = self._rehearse()
        except Silent as silent:
            return Report(self._script, tuple(static), str(silent))
        if reads_config(self._modules):
            answer["ignored"] = []  # the script reads them from wandb.config
        verdict = judge(answer, self._case())
        found = [self._place(one) for one in verdict.complaints]
        if "complaints" in answer:
            found += self._list_doubts(answer)
        return Report(self._script, (*found, *static), verdict.not_checked)

    def read(self) -> Reading:
        """Return flags and metrics; raises Unseen."""
        try:
            answer = self._rehearse(describing=True)
        except Silent as silent:
            raise Unseen(str(silent)) from None
        if "sign" not in answer:
            verdict = judge(answer, self._case())
            said = [one.message for one in verdict.complaints]
            raise Unseen(verdict.not_checked or "; ".join(said))
        folder, files = str(self._around.folder), answer["files"]
        found = [
            parse_flag(one, find_place(one["names"][0].lstrip("-"), files, folder))
            for one in answer["flags"]
        ]
        flags = tuple(flag for flag in found if flag) or tuple(
            Flag(name, type(value).__name__, default=value)
            for name, value in answer.get("defaults", {}).items()
        )
        logged = find_logged(self._modules)
        return Reading(flags, logged, tuple(answer["subcommands"]), answer.get("style", ""))

    def _rehearse(self, describing: bool = False) -> dict[str, Any]:
        around = self._around
        return rehearse(self._commands, str(around.folder), self._shown, self._seconds, describing)

    def _case(self) -> Rehearsal:
        around = self._around
        elsewhere, drawn = not around.same_packages, list_drawn(self._config)
        return Rehearsal(self._script, str(around.folder), self._corners, drawn, elsewhere)

    def _place(self, one: Complaint) -> Finding:
        parameters = self._config.get("parameters") or {}
        sure = one.sure and not self._unset
        if one.name.startswith("."):
            path: tuple[str, ...] = (one.name[1:],)
        elif one.name.partition(".")[0] in parameters or one.name in parameters:
            path = ("parameters", one.name if one.name in parameters else one.name.split(".")[0])
        else:
            path = self._find_word(one.message) or (("parameters",) if parameters else ())
        hint = self._find_remedy(one.module) if one.module else one.hint
        return (problem if sure else doubt)(path, one.message, hint)

    def _find_remedy(self, module: str) -> str:
        named = next((one for one in self._commands.before if PYTHON.fullmatch(one)), "python")
        python = shutil.which(named, path=self._shown.get("PATH", os.defpath)) or named
        return next(iter(list_remedies([module], python, self._around.folder, self._shown)))

    def _find_word(self, message: str) -> tuple[str, ...]:
        """Return the word of `command` whose flag an error names."""
        for index, word in enumerate(self._config.get("command") or ()):
            flag = str(word).partition("=")[0]
            if flag.startswith("--") and re.search(rf"{re.escape(flag)}(?![\w-])", message):
                return ("command", f"[{index}]")
        return ()

    def _list_doubts(self, answer: Mapping[str, Any]) -> Iterator[Finding]:
        """Warn about values that a parser reads differently than intended."""
        drops_false = "${args_no_boolean_flags}" in (self._config.get("command") or ())
        found: dict[str, Finding] = {}
        for corner in self._corners:
            for name, value in corner.items():
                flag, path = find_flag(name, answer["flags"]), ("parameters", name)
                if flag is None or name in found:
                    continue
                where = find_place(name, answer["files"], str(self._around.folder)) or self._script
                if flag["type"] == "bool" and flag["plain_bool"] and value is False:
                    message = f"{where}: type=bool turns every text into True, even 'False'"
                    hint = (
                        "action=argparse.BooleanOptionalAction, or type=lambda text: text == 'True'"
                    )
                    found[name] = doubt(path, message, hint)
                if flag["paired"] and flag["default"] is True and value is False and drops_false:
                    message = (
                        f"{where}: --{name} is on by default, and agents never pass --no-{name}"
                    )
                    hint = "default=False in the script, or a flag that takes a value"
                    found[name] = doubt(path, message, hint)
                if flag["inert"] and value is (not flag["default"]):
                    said = f"can never be {value}: it defaults to {not value} and sets {not value}"
                    message = f"{where}: --{name} {said}, so it changes nothing"
                    found[name] = doubt(path, message, f"default={value} in the script")
                if isinstance(value, dict) and flag["type"] in ("", "str"):
                    message = (
                        f"{where}: --{name} gets a whole mapping as one text, {str(value)[:40]}"
                    )
                    hint = "read it with ast.literal_eval, or from wandb.config"
                    found[name] = doubt(path, message, hint)
        yield from found.values()

    def _find_missing_program(self) -> Iterator[Finding]:
        """Report a launcher or an interpreter that is missing on this machine."""
        environment, folder = self._around.environment, self._around.folder
        for word in self._commands.before:
            if os.path.basename(word) == "env" or "=" in word or word.startswith("-"):
                continue
            here = shutil.which(word, path=environment.get("PATH", "")) or (
                "/" in word and (folder / word).exists()
            )
            if not here and self._around.same_packages:
                hint = "install it, or name another program in command"
                if PYTHON.fullmatch(word):
                    hint = "write ${interpreter}, the Python of `local: {python: PATH}` or of PATH"
                template = [str(one) for one in self._config.get("command") or ()]
                path = (
                    ("command", f"[{template.index(word)}]") if word in template else ("command",)
                )
                where = "" if "/" in word else " on PATH"
                yield problem(path, f"program {word} not found{where}", hint)
            return

    def _list_detours(self) -> Iterator[Finding]:
        """Warn about a script whose text shows that none of its runs would reach its sweep."""
        if self._modules and (line := find_line(self._modules[0], OFFLINE)):
            said = f"{self._script}:{line}: wandb is offline or disabled from here on"
            yield doubt(("program",), said, ONLINE)
        if self._modules and (line := find_line(self._modules[0], OTHER_PROJECT)):
            said = f"{self._script}:{line}: the script sets its own project"
            yield doubt(("program",), said, OF_SWEEP)

    def _list_unset(self) -> Iterator[Finding]:
        """Warn about environment variables that the command needs and that are unset here."""
        for name in self._unset:
            if name not in self._around.environment:
                said = f"{name} is not set here, so its name is used as the value"
                yield doubt(("command",), said, "set it where the agents run")

    def _list_cut(self) -> Iterator[Finding]:
        for name, raw in (self._config.get("parameters") or {}).items():
            values = raw.get("values") if isinstance(raw, Mapping) else None
            if isinstance(values, list) and len(values) > MOST_VALUES:
                said = f"only {MOST_VALUES:,} of {len(values):,} values are checked"
                yield doubt(("parameters", name), said, "check the remaining values yourself")
