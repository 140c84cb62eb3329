"""Arguments and options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperOption
from typer.exceptions import TyperException
from typer.main import get_command

from deployer.cli.shell.usage import UsageError
from deployer.text import DURATION_HINT, parse_duration

# Shell completion: sweeps and agents of the local folders.
#
# Contacts no server and no cluster, so that Tab responds at once.

MOST_PACKED = 128  # the most agents on one machine
GIVEN = "deployer.given"  # in a context: the values of the shared options, by name
TYPED = "deployer.typed"  # and those given on the command line


def complete_sweeps(incomplete: str) -> list[str]:
    """Return the paths of sweeps made from this machine, the newest first."""
    from deployer.sweeps.records import Records

    paths = dict.fromkeys(record.sweep_path for record in Records.load() if record.sweep_path)
    short = [path.rsplit("/", 1)[1] for path in paths]
    return [one for one in (*paths, *short) if incomplete and one.startswith(incomplete)] or [
        path for path in paths if path.startswith(incomplete)
    ]


def complete_agents(incomplete: str) -> list[str]:
    from deployer.config.paths import agents_folder
    from deployer.executors.local.agent_folder import load_folders

    names = [folder.spec.name for folder in load_folders(agents_folder())]
    return [name for name in names if name.startswith(incomplete)]


def complete_executors(incomplete: str) -> list[str]:
    from deployer.executors.registry import list_names

    return [name for name in list_names() if name.startswith(incomplete)]


class BadValue(typer.BadParameter):
    """A flag has an invalid value."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def read_duration(text: str) -> float:
    """Parse the duration of a flag such as `--timeout 90s` to seconds; raises BadValue."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadValue(str(error), DURATION_HINT) from error


def read_positive_duration(text: str) -> float:
    """Parse a duration that cannot be zero to seconds; raises BadValue."""
    seconds = read_duration(text)
    if not seconds:
        raise BadValue(f"'{text}' is not a positive time", DURATION_HINT)
    return seconds


SweepArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SWEEP",
        autocompletion=complete_sweeps,
        help="ENTITY/PROJECT/SWEEP_ID, a short id or an address; "
        "default: the newest sweep started in this folder.",
    ),
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A W&B sweep file (YAML).")]
ReplicasOption = Annotated[
    int | None,
    typer.Option(
        "--replicas", metavar="N", envvar="DEPLOYER_REPLICAS", min=1, help="Number of agents."
    ),
]
OneRunOption = Annotated[
    bool,
    typer.Option(
        "--one-run-per-job",
        help="Start one agent per remaining run; each ends after its run. "
        "--replicas limits how many agents run at a time.",
    ),
]
PackingOption = Annotated[
    int | None,
    typer.Option(
        "--packing",
        metavar="K",
        min=1,
        max=MOST_PACKED,
        help="Agents per GPU (per machine without one, per pod on a cluster).",
    ),
]
MaxTimeOption = Annotated[
    float | None,
    typer.Option(
        "--max-time",
        metavar="DURATION",
        parser=read_positive_duration,
        help="End agents after this time, such as 6h, even if no `up` or `watch` is running; "
        "other agents repeat their runs.",
    ),
]
PendingTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--pending-timeout",
        metavar="DURATION",
        parser=read_positive_duration,
        help="How long to wait for the first agent to start, such as 30m. Then, or on an "
        "error that waiting cannot fix, `deployer` ends your agents and exits with 3.",
    ),
]
CapacityOption = Annotated[
    float | None,
    typer.Option(
        "--wait-for-capacity",
        metavar="DURATION",
        parser=read_duration,
        help="On GKE: how long to retry while no GPUs are available, such as 2h.",
    ),
]
RunCapOption = Annotated[
    int | None, typer.Option("--run-cap", metavar="N", min=1, help="Maximum number of runs.")
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="N", help="Make random draws repeatable; embedded backend only."
    ),
]
RetriesOption = Annotated[
    int | None,
    typer.Option(
        "--retries",
        metavar="N",
        min=0,
        help="How often to retry a failed run (default 1); embedded backend only.",
    ),
]
NoCheckOption = Annotated[
    bool,
    typer.Option("--no-check", help="Do not check that the script accepts the flags."),
]
PlainOption = Annotated[
    bool, typer.Option("--plain", help="Print lines instead of the live view; default in a pipe.")
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Return as soon as the agents are started.")
]
DownAfterOption = Annotated[
    bool,
    typer.Option(
        "--down-after", help="At the end, delete what `up` created; with --on gke also the cluster."
    ),
]


# The shared options of commands; they may be anywhere before `--`.
#
# A context keeps them: that of `deployer`, of a group, of the command. Nothing slow is imported
# here, since `deployer --help` shows them.


def _complete_formats(ctx: typer.Context, incomplete: str) -> list[str]:
    formats = getattr(ctx.command, "formats", ())
    return [one for one in formats if one.startswith(incomplete)]


def _check_format(ctx: typer.Context, value: str | None) -> str | None:
    if isinstance(ctx, CommandLine) and value is not None and not ctx.resilient_parsing:
        ctx.check_format(value)
    return value


# Never called: Typer turns a function's parameters into options, and `list_options` reads those of
# this one. Each command parses a copy of them, and `CommandLine.given` merges the values.
def _declare(
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="EXECUTOR",
            autocompletion=complete_executors,
            envvar="DEPLOYER_ON",
            help="Where agents run: local, kubernetes or gke. Default: where the sweep's agents "
            "run, else `on:` in deployer.yaml, else local (kubernetes with --context or -n).",
        ),
    ] = None,
    wandb: Annotated[
        str | None,
        typer.Option(
            "--wandb",
            metavar="SERVER",
            envvar="DEPLOYER_WANDB",
            help="`embedded`, or the address of a W&B server.",
        ),
    ] = None,
    entity: Annotated[
        str | None,
        typer.Option("--entity", metavar="ENTITY", help="The user or team that owns the sweep."),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            "--project",
            metavar="PROJECT",
            help="The sweep's project; for `gke` and `orphans`, Google's project.",
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            help="The kubeconfig context. Default: the context that the sweep was started with, "
            "else `context:` in deployer.yaml, else the current context.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", metavar="NAME", help="The namespace; default: as for --context."
        ),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner",
            metavar="NAME",
            envvar="DEPLOYER_OWNER",
            help="The owner of objects that you create, if several people share a kubeconfig; "
            "default: your user name in the cluster.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FORMAT",
            autocompletion=_complete_formats,
            callback=_check_format,
            help="The format of stdout: table or json; csv for results, yaml for plans.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors on stderr.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print each request on stderr.")
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="PATH",
            help="Also write messages and each request to a file.",
        ),
    ] = None,
) -> None: ...


class SharedOption(TyperOption):
    """One of the shared options; only the help of `deployer` shows it."""

    def __init__(self, option: Any) -> None:
        vars(self).update(vars(option))

    def get_help_record(self, ctx: Any) -> tuple[str, str] | None:
        return None if ctx.parent else super().get_help_record(ctx)


@cache
def list_options() -> tuple[SharedOption, ...]:
    holder = typer.Typer(add_completion=False)
    holder.command()(_declare)
    return tuple(map(SharedOption, get_command(holder).params))


class CommandLine(typer.Context):
    """A context with the shared options' values, wherever they were given."""

    @property
    def given(self) -> dict[str, Any]:
        """Their values by name; None or False if not given."""
        found: dict[str, Any] = self.meta.setdefault(GIVEN, {})
        return found

    def check_format(self, name: str) -> None:
        """Reject a format that the command does not have; a group accepts all."""

    def take_given(self) -> None:
        """Remove the shared options from the command's own parameters; raises UsageError.

        The command line takes precedence over the environment, and later values over earlier ones.
        """
        typed: set[str] = self.meta.setdefault(TYPED, set())
        known = self.command.params
        for option in list_options():
            name, flag, value = option.name, option.opts[0], self.params.pop(option.name, None)
            source = self.get_parameter_source(name)
            if option not in known and name in typed and not self.resilient_parsing:
                raise UsageError(f"No such option: {flag}", f"{self.command_path} --help")
            if source and source.name == "COMMANDLINE":
                typed.add(name)
                if str(value).startswith("-") and not self.resilient_parsing:  # it is the next flag
                    said = f"Option '{flag}' requires an argument"
                    raise UsageError(said, f"{self.command_path} --help")
            elif name in typed:
                continue
            self.given[name] = value


class WithOptions:
    """A mixin that adds the shared options; must precede Typer's own class.

    `without` names those that do not apply.
    """

    without: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *words: Any, params: Sequence[Any] | None = None, **more: Any) -> None:
        shared = [one for one in list_options() if one.name not in self.without]
        super().__init__(*words, params=[*(params or ()), *shared], **more)  # type: ignore[call-arg]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line; raises Typer's errors."""
        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except TyperException as error:
            vars(error).update(ctx=getattr(error, "ctx", None) or ctx)  # not all errors have it
            raise
        ctx.take_given()
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options; below `deployer`, only the names of the shared ones."""
        super().format_options(ctx, formatter)  # type: ignore[misc]
        if ctx.parent:
            shared = [one for one in ctx.command.params if one in list_options()]
            names = ", ".join(one.opts[-1] for one in shared)
            formatter.write_paragraph()
            formatter.write_text(f"Shared options (see deployer --help): {names}")
