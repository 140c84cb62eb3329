"""Whether a sweep's script takes the commands that an agent would start, and logs its metric."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from deployer.config.redaction import is_secret_name
from deployer.scripts import remembered
from deployer.scripts.agent_commands import list_unset, render_commands
from deployer.scripts.complaints import Complaints, check_metric
from deployer.scripts.corners import MOST_VALUES, list_corners
from deployer.scripts.flags import Flag, parse_flag
from deployer.scripts.invocation import Invocation, see_through
from deployer.scripts.log_calls import Logged, find_logged
from deployer.scripts.rehearsal.pod import NO_PARSER
from deployer.scripts.rehearsal.process import name_complaint
from deployer.scripts.rehearsal.project_modules import (
    Module,
    find_module_file,
    list_project_modules,
    reads_flags,
)
from deployer.scripts.rehearsal.wording import explain_end, show_file, show_place
from deployer.scripts.rehearsal_run import find_executable, rehearse
from deployer.scripts.unseen import Unseen
from deployer.sweeps.problem import Problem, doubt

SECONDS = 60.0
MOST_CONFIRMED = 5  # kinds of complaints: each costs the script's import once more


@dataclass(frozen=True)
class Surroundings:
    """Where a script runs: its folder, its environment, and whether packages are those of here."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    same_packages: bool = True


@dataclass(frozen=True)
class Report:
    """What is wrong or doubtful; `not_checked` says why the parser was not asked, else empty."""

    script: str = ""
    problems: tuple[Problem, ...] = ()
    not_checked: str = ""

    @property
    def refused(self) -> bool:
        """Tell whether the sweep cannot run as it is."""
        return any(problem.severity == "error" for problem in self.problems)


def check_script(
    config: Mapping[str, Any],
    around: Surroundings,
    memory: Path | None = None,
    seconds: float = SECONDS,
) -> Report:
    """Return what the script says of the sweep; the report is remembered in the folder `memory`.

    What the script does while it is imported is done; nothing behind its parser runs.
    """
    try:
        return _Check(config, around, seconds).report(memory)
    except Unseen as unseen:
        return Report(not_checked=str(unseen))


@dataclass(frozen=True)
class Reading:
    """What a script's parser has, and what the script logs."""

    flags: tuple[Flag, ...]
    logged: Logged


def read_script(
    config: Mapping[str, Any], around: Surroundings, seconds: float = SECONDS
) -> Reading:
    """Return the flags of the script that a sweep's command starts, and what it logs.

    Raises Unseen where they cannot be had.
    """
    return _Check(config, around, seconds).read()


class _Check:
    """One sweep and its script."""

    def __init__(self, config: Mapping[str, Any], around: Surroundings, seconds: float) -> None:
        self._config, self._around, self._seconds = config, around, seconds
        # No key comes into a command either; where one is named, nobody can tell what it is.
        shown = {k: v for k, v in around.environment.items() if not is_secret_name(k)}
        self._shown, self._unset = shown, list_unset(config, shown)
        self._corners = list_corners(config)
        self._invocation = self._see(self._corners[:1], [""])[0]
        self._executable = find_executable(self._invocation, around.environment)
        self._modules = self._list_modules()

    def report(self, memory: Path | None) -> Report:
        """Return the remembered report, or a new one."""
        files = [str(module.path) for module in self._modules]
        key = remembered.build_key(
            self._config, self._around.folder, self._executable, self._around.same_packages
        )
        kept = remembered.load(memory, key) if memory else None
        if kept:
            problems = [Problem(**{**p, "path": tuple(p["path"])}) for p in kept["problems"]]
            return Report(kept["script"], tuple(problems))
        report, used = self._examine()
        if memory and not report.not_checked and not report.refused:
            files += [*used, str(Path(self._executable).resolve()), *remembered.list_own_files()]
            remembered.save(memory, key, sorted(set(files)), asdict(report))
        return report

    def read(self) -> Reading:
        """Return flags and metrics; raises Unseen."""
        if not reads_flags(self._modules):
            raise Unseen(NO_PARSER)
        answer = self._ask(self._corners)
        if "parser" not in answer:
            raise Unseen(self._explain(answer))
        folder = str(self._around.folder)
        found = [parse_flag(one, show_place(one, "", folder)) for one in answer["flags"]]
        return Reading(tuple(flag for flag in found if flag), find_logged(self._modules))

    def _examine(self) -> tuple[Report, list[str]]:
        """Return the report, and the files that it depends on."""
        script = self._invocation.shown
        metric = tuple(check_metric(self._config, find_logged(self._modules), script))
        if not reads_flags(self._modules):
            return Report(script, metric, NO_PARSER), []
        try:
            answer = self._ask(self._corners)
        except Unseen as unseen:
            return Report(script, metric, str(unseen)), []
        if "syntax" in answer:
            place = f"{show_file(answer['file'], str(self._around.folder))}:{answer['line']}"
            broken = Problem(("program",), f"{place}: {answer['syntax']}", "correct the script")
            return Report(script, (broken,)), answer["files"]
        if "parser" not in answer:
            return Report(script, metric, self._explain(answer)), []
        self._confirm(answer)
        answer["sure"] = answer["sure"] and not self._unset and self._is_sure(answer)
        complaints = Complaints(
            self._config, script, self._around.folder, answer, not self._around.same_packages
        )
        problems = (
            *complaints.list_all(self._corners),
            *self._list_unset(),
            *self._list_cut(),
            *metric,
        )
        return Report(script, problems), [*answer["files"], *answer["packages"]]

    def _list_unset(self) -> Iterator[Problem]:
        """Warn of environment variables that the command needs and that are not set here."""
        for name in self._unset:
            if name not in self._around.environment:
                said = f"{name} is not set here, so its name is taken for its value"
                yield doubt(("command",), said, "set it where the agents run")

    def _list_cut(self) -> Iterator[Problem]:
        """Say of which lists not every value was asked about."""
        for name, raw in (self._config.get("parameters") or {}).items():
            values = raw.get("values") if isinstance(raw, Mapping) else None
            if isinstance(values, list) and len(values) > MOST_VALUES:
                said = f"only {MOST_VALUES:,} of {len(values):,} values are asked about"
                yield doubt(("parameters", name), said, "look at the others yourself")

    def _is_sure(self, answer: Mapping[str, Any]) -> bool:
        """Tell whether flags are the same where the script runs: defined in the project."""
        return self._around.same_packages or all(flag["own"] for flag in answer["flags"])

    def _confirm(self, answer: dict[str, Any]) -> None:
        """Drop what a parser says of a configuration only if it has read others before.

        Each kind of complaint is asked about once more, by itself in a process of its own.
        """
        said: list[list[Any]] = answer["problems"]
        first = {name_complaint(one): i for i in reversed(range(1, len(said))) for one in said[i]}
        certain = {name_complaint(one) for one in said[0]}
        doubtful = {kind: i for kind, i in first.items() if kind not in certain}
        for kind, index in itertools.islice(doubtful.items(), MOST_CONFIRMED):
            alone = self._ask([self._corners[index]])
            if "parser" in alone and kind not in map(name_complaint, alone["problems"][0]):
                answer["problems"] = [[p for p in ps if name_complaint(p) != kind] for ps in said]
                said = answer["problems"]

    def _ask(self, corners: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="deployer-arguments-") as scratch:
            files = [str(Path(scratch, f"{n}.json")) for n in range(len(corners))]
            for file, corner in zip(files, corners, strict=True):
                Path(file).write_text(json.dumps(corner), encoding="utf-8")
            found = self._see(corners, files)
            first = found[0]
            if any(replace(one, arguments=first.arguments) != first for one in found):
                raise Unseen("its command starts another script for each configuration")
            return rehearse(
                first,
                [one.arguments for one in found],
                corners[0],
                self._around.folder,
                self._around.environment,
                self._seconds,
            )

    def _see(
        self, corners: Sequence[Mapping[str, Any]], json_files: Sequence[str]
    ) -> list[Invocation]:
        around = self._around
        commands = render_commands(self._config, corners, self._shown, json_files)
        path = around.environment.get("PATH", "")
        return [see_through(words, around.folder, path) for words in commands]

    def _list_modules(self) -> list[Module]:
        found, folder = self._invocation, self._around.folder
        if found.module:
            entry = find_module_file(found.target, folder)
            if entry is None:
                raise Unseen(f"the module {found.target} is not in this folder")
            return list_project_modules(entry, (folder,))
        entry = folder / found.target
        return list_project_modules(entry, (entry.resolve().parent, folder))

    def _explain(self, answer: Mapping[str, Any]) -> str:
        """Return why a script did not come to its parser."""
        return explain_end(answer, self._invocation.interpreter[0], str(self._around.folder))
