"""The options that commands share; they may stand at any place before `--`.

A context keeps them: that of `deployer`, of a group, of the command. Nothing that takes time is
imported here, since `deployer --help` shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperOption
from typer.exceptions import TyperException
from typer.main import get_command

from deployer.cli.shell.completion import complete_executors
from deployer.cli.shell.usage import UsageError

GIVEN = "deployer.given"  # in a context: the values of these options, by their names
TYPED = "deployer.typed"  # and which of them are in the command line


def _complete_formats(ctx: typer.Context, incomplete: str) -> list[str]:
    formats = getattr(ctx.command, "formats", ())
    return [one for one in formats if one.startswith(incomplete)]


def _check_format(ctx: typer.Context, value: str | None) -> str | None:
    if isinstance(ctx, CommandLine) and value is not None and not ctx.resilient_parsing:
        ctx.check_format(value)
    return value


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
    """One of these options: the help of `deployer` shows it, and no other."""

    def __init__(self, option: Any) -> None:
        vars(self).update(vars(option))

    def get_help_record(self, ctx: Any) -> tuple[str, str] | None:
        """Return the words of the option in the help, and what they mean."""
        return None if ctx.parent else super().get_help_record(ctx)


@cache
def list_options() -> tuple[SharedOption, ...]:
    """Return the options in the order of the help."""
    holder = typer.Typer(add_completion=False)
    holder.command()(_declare)
    return tuple(map(SharedOption, get_command(holder).params))


class CommandLine(typer.Context):
    """A context that knows what was said of these options, wherever it stood."""

    @property
    def given(self) -> dict[str, Any]:
        """Their values by their names; None or False where nothing was said."""
        found: dict[str, Any] = self.meta.setdefault(GIVEN, {})
        return found

    def check_format(self, name: str) -> None:
        """Refuse what is no format of the command; a group does not know."""

    def take_given(self) -> None:
        """Take them out of the command's own parameters; raises UsageError.

        The command line counts more than the environment, and what stands behind more than what
        stands before.
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
                if str(value).startswith("-") and not self.resilient_parsing:  # the next flag
                    said = f"Option '{flag}' requires an argument"
                    raise UsageError(said, f"{self.command_path} --help")
            elif name in typed:
                continue
            self.given[name] = value


class WithOptions:
    """What a command or a group has by these options; stands before Typer's own class.

    `without` names those that mean nothing to it.
    """

    without: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *words: Any, params: Sequence[Any] | None = None, **more: Any) -> None:
        shared = [one for one in list_options() if one.name not in self.without]
        super().__init__(*words, params=[*(params or ()), *shared], **more)  # type: ignore[call-arg]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line; raises Typer's errors."""
        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except TyperException as error:
            vars(error).update(ctx=getattr(error, "ctx", None) or ctx)  # not every one has it
            raise
        ctx.take_given()
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options; below `deployer`, only name those that are shared."""
        super().format_options(ctx, formatter)  # type: ignore[misc]
        if ctx.parent:
            shared = [one for one in ctx.command.params if one in list_options()]
            names = ", ".join(one.opts[-1] for one in shared)
            formatter.write_paragraph()
            formatter.write_text(f"Shared options (see deployer --help): {names}")
