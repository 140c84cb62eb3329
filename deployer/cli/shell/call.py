"""The context of a command, and its prompts on the terminal."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from deployer.cli.output.log import open_log
from deployer.cli.output.render import Table, ask, emit, say
from deployer.cli.shell.groups import Group, load_command, summarise_help
from deployer.cli.shell.options import CommandLine, WithOptions, list_options
from deployer.cli.shell.usage import UsageError
from deployer.config.project import Flags, Project
from deployer.errors import CloudError, ConfigError
from deployer.executors.base import Executor
from deployer.executors.registry import find_executor
from deployer.launch.request import read_project
from deployer.launch.resolution import (
    Choice,
    choose_sweep,
    open_sweep,
    resolve_executor,
    resolve_executors,
)
from deployer.model import SweepPath
from deployer.wandb_api.server import Server

F = TypeVar("F", bound=Callable[..., Any])
PROJECTS = "deployer.projects"  # in a context: projects by the number of agents
# Options that do not apply to some commands.
SERVER = ("wandb", "entity", "project")
FORMAT = ("output",)
PLACE = ("on", "context", "namespace")
ALL_BUT_LOG = (*SERVER, *FORMAT, *PLACE, "owner", "yes")
FLAGS = (*PLACE, *SERVER, "owner")


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def check_can_ask(yes: bool, otherwise: str = "") -> None:
    """Raise ConfigError if a deletion cannot be confirmed: no -y and no terminal.

    `otherwise` adds an alternative to the hint.
    """
    if not yes and not can_ask():
        said = "is missing, and deployer cannot ask without a terminal"
        hint = "; ".join(filter(None, ("add --yes to confirm", otherwise)))
        raise ConfigError("--yes", said, hint)


def is_sure(question: str, yes: bool, otherwise: str = "") -> bool:
    """Return True if the user agrees, by -y or on the terminal; raises ConfigError without both.

    `otherwise` adds an alternative to the hint.
    """
    check_can_ask(yes, otherwise)
    return yes or confirm(question)


def check_held(held: Sequence[tuple[str, bool]], name: str, yes: bool, *, named: bool) -> bool:
    """List the reasons to keep a cluster, with owners; return True if it is to be deleted.

    Another owner's must be `named` on the command line, with -y. False if there is no reason to
    keep the cluster called `name`. Raises DeployerError if it must stay.
    """
    for words, foreign in held:
        if foreign and not (yes and named):
            hint = f"if its owner agrees: deployer orphans {name} --yes"
            raise CloudError(f"another owner's cluster stays: {words}", hint, "NOT_YOURS")
        say(words)
    if held and not is_sure("delete it with everything in it?", yes):
        raise CloudError("nothing was deleted", "", "HELD")
    return bool(held)


def confirm(question: str) -> bool:
    """Ask on the terminal; any answer except yes means no."""
    return ask(f"{question} [y/N]").lower() in ("y", "yes")


class Call(CommandLine):
    """A command's context: its shared options, and the data read from them."""

    @property
    def output(self) -> str:
        """The format of stdout; the command's first format by default."""
        return self.given["output"] or self._formats[0]

    @property
    def yes(self) -> bool:
        return bool(self.given["yes"])

    @property
    def _formats(self) -> tuple[str, ...]:
        formats: tuple[str, ...] = getattr(self.command, "formats", ())
        return formats

    def begin(self) -> None:
        """Set up logging and the output format; raises ConfigError, UsageError."""
        if self.given["output"] is not None:
            self.check_format(self.given["output"])  # also if it preceded the command
        quiet, verbose, file = (self.given[name] for name in ("quiet", "verbose", "log_file"))
        if quiet or verbose or file:
            open_log(quiet, verbose, file)

    def check_format(self, name: str) -> None:
        """Reject a format that the command does not have; raises UsageError."""
        if name in self._formats:
            return
        near = difflib.get_close_matches(name, self._formats, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"{self.command_path} --help"
        said = f"'{name}' is not one of {', '.join(self._formats)}"
        raise UsageError(f"--output: {said}", hint)

    def read(self, replicas: int | None = None) -> Project:
        """Return the project of the current folder: flags, environment and `deployer.yaml`."""
        known: dict[int | None, Project] = self.meta.setdefault(PROJECTS, {})
        if replicas not in known:
            project = read_project(self._read_flags(replicas))
            if "on" not in getattr(self.command, "without", ()):
                # Reject a context or a namespace if it does not apply; raises ConfigError.
                for name in project.named_cluster:
                    executor = find_executor(project)
                    if name == "context" and executor.cluster:
                        hint = "remove it, or add --on kubernetes"
                        raise ConfigError(
                            "--context", f"--on {project.on} has its own cluster", hint
                        )
                    if executor.backend is None:
                        said = f"is for clusters, and {executor.place} is not a cluster"
                        raise ConfigError(f"--{name}", said, "remove it, or add --on kubernetes")
            known[replicas] = project
        return known[replicas]

    def read_in(self, folder: Path) -> Project:
        return read_project(self._read_flags(None), folder)

    def _read_flags(self, replicas: int | None) -> Flags:
        return Flags(**{name: self.given[name] for name in FLAGS}, replicas=replicas)

    def read_of(self, sweep: str | None, replicas: int | None = None) -> Project:
        """Return the project for an existing sweep, with the location of its agents."""
        return resolve_executor(sweep, self.read(replicas))

    def read_of_all(self) -> Project:
        """Return the project for all sweeps of a location: the named or the current one."""
        return resolve_executors(self.read())

    def connect(
        self, sweep: str | None, replicas: int | None = None, *, reading: bool = False
    ) -> tuple[Project, Server, SweepPath]:
        """Connect to the server of the sweep; with `reading`, no backend is started."""
        project = self.read_of(sweep, replicas)
        server, path = open_sweep(self._choose(sweep, project), reading=reading)
        self._check_names(path)
        return project, server, path

    def find(self, sweep: str | None) -> tuple[Project, Executor, SweepPath]:
        """Return where a sweep's agents are, and its path; contacts a server only if needed."""
        project = self.read_of(sweep)
        return project, find_executor(project), self.find_path(sweep, project)

    def find_path(self, sweep: str | None, project: Project) -> SweepPath:
        """Return a sweep's path; contacts a server only if it is unknown otherwise."""
        choice = self._choose(sweep, project)
        path = choice.path() if choice.complete else open_sweep(choice, reading=True)[1]
        self._check_names(path)
        return path

    def _choose(self, sweep: str | None, project: Project) -> Choice:
        """Return the selected sweep; a short id may belong to any agent's sweep."""
        return choose_sweep(sweep, project, _list_paths_of_agents(project))

    def _check_names(self, path: SweepPath) -> None:
        """Reject a sweep of an entity or project other than the named one; raises ConfigError."""
        for name, of_sweep in (("entity", path.entity), ("project", path.project)):
            named = self.given[name]
            if named and named != of_sweep:
                said = f"{path} is not in '{named}'"
                raise ConfigError(f"--{name}", said, "name the sweep, or remove the flag")

    def emit(self, data: Any, *shown: Table | str) -> None:
        emit(data, self.output, *shown)

    def is_sure(self, question: str, otherwise: str = "") -> bool:
        """Return True if the user agrees, by -y or on the terminal; raises ConfigError."""
        return is_sure(question, self.yes, otherwise)


class Command(WithOptions, TyperCommand):
    """A command whose function takes a `Call`; `formats` are those of its result."""

    context_class = Call
    formats: ClassVar[tuple[str, ...]] = ("table", "json")

    def invoke(self, ctx: Any) -> Any:
        ctx.begin()
        return super().invoke(ctx)


class CommandWithCsv(Command):
    """A command with a ranking."""

    formats = ("table", "json", "csv")


class CommandWithYaml(Command):
    """A command that prints documents for a server."""

    formats = ("yaml", "json")


class CommandWithOthers(Command):
    """A command with an argument and subcommands: `results [SWEEP]`, `results get`.

    The subcommands' names are not valid values of that argument. A subclass sets `modules`, whose
    `app` has one command each; they are imported on use.
    """

    modules: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(self.modules)

    def get_command(self, _ctx: Any, name: str) -> Any:
        """Return a subcommand; None if it does not exist."""
        if name not in self.modules:
            return None
        return load_command(self.modules[name], (str(self.name), name))

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the command line: a subcommand's, if the first word except options names one."""
        place = self._find_below(args)
        if place is None:
            return super().make_context(info_name, args, parent, **extra)
        # The argument of this command does not apply to its subcommands.
        outer = CommandLine(TyperGroup(name=info_name), info_name=info_name, parent=parent)
        name, rest = args[place], [*args[:place], *args[place + 1 :]]
        return self.get_command(outer, name).make_context(name, rest, outer, **extra)

    def _find_below(self, args: Sequence[str]) -> int | None:
        """Return the index of a subcommand's name: first, or after shared options."""
        options = {flag: one for one in list_options() for flag in one.opts}
        place = 0
        while place < len(args) and args[place].startswith("-"):
            word = args[place]
            flag = word.partition("=")[0] if word.startswith("--") else word[:2]
            if flag not in options:
                return None
            place += 1 if options[flag].is_flag or word != flag else 2
        return place if place < len(args) and args[place] in self.modules else None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        commands = [(name, self.get_command(ctx, name)) for name in self.modules]
        with formatter.section("Commands"):
            formatter.write_dl([(name, summarise_help(one)) for name, one in commands])


class App(typer.Typer):
    """A set of commands whose functions take a `Call`; a single one forms no group."""

    def __init__(self, description: str = "") -> None:
        super().__init__(
            cls=Group, help=description or None, rich_markup_mode=None, add_completion=False
        )

    def command(  # type: ignore[override]  # none of ours needs Typer's other settings
        self,
        name: str | None = None,
        *,
        cls: type[Command] = Command,
        without: Sequence[str] = (),
    ) -> Callable[[F], F]:
        """Return a decorator that makes a function a command, `without` some shared options."""
        if without:
            cls = type(cls.__name__, (cls,), {"without": (*cls.without, *without)})
        return super().command(name, cls=cls)


def _list_paths_of_agents(project: Project) -> Iterator[str]:
    """Yield the sweeps of agents; the executor is queried only for the first one."""
    yield from (agent.sweep_path for agent in find_executor(project).list_agents())
