"""`deployer init`: a first sweep file, from a script's flags or from an existing sweep."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.output.render import ask, say
from deployer.cli.shell.call import FORMAT, App, Call, can_ask
from deployer.config.document import FILE_NAME
from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.launch.script import NotDrafted, draft_for_script, find_start
from deployer.scripts.sweep_draft import SETTINGS
from deployer.sweeps.sweep_file import dump_config
from deployer.text import format_count
from deployer.wandb_api.operations import get_sweep

app = App()


@app.command(without=FORMAT)
def init(
    call: Call,
    script: Annotated[
        str | None,
        typer.Argument(
            metavar="SCRIPT", help="A Python file in this folder, or a package such as pkg.train."
        ),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORDS",
            help="Arguments before the flags, such as a subcommand: init train.py -- fit.",
        ),
    ] = None,
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="The sweep file to write.")
    ] = Path("sweep.yaml"),
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Give a flag one fixed value; repeatable."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="SWEEP", help="Write the file of this existing sweep instead."
        ),
    ] = None,
) -> None:
    """Write a sweep file with ranges for a script's flags, and a commented deployer.yaml.

    Runs the script until it has parsed its flags. Never overwrites a file.
    """
    if (script is None) == (source is None):
        raise ConfigError(
            "SCRIPT", "name a script, or a sweep with --from", "deployer init train.py"
        )
    config = call.read()
    if script is not None:
        find_start(config.folder, script)
    if to.exists():
        raise ConfigError(str(to), "the file already exists", "name another one with --to")
    if source is not None:
        _write(to, _read_sweep(call, source))
    else:
        assert script is not None
        try:
            text = _draft((script, words or []), config, _read_given(given or []), call.yes)
        except NotDrafted as error:
            say(error.lines)
            raise
        _write(to, text)
        if not (config.folder / FILE_NAME).exists():
            _write(config.folder / FILE_NAME, SETTINGS)
    say(f"next: deployer up {shlex.quote(str(to))}")


def _draft(named: tuple[str, list[str]], config: Project, given: dict[str, str], yes: bool) -> str:
    """Return the text of a script's sweep; prompts for values that only the user knows."""
    script, words = named
    draft = draft_for_script(config, script, given, words)
    if draft.subcommands:
        known = ", ".join(draft.subcommands)
        if yes or not can_ask():
            hint = f"deployer init {script} -- {draft.subcommands[0]}"
            raise ConfigError(script, f"name one of its subcommands: {known}", hint)
        words = [*words, ask(f"which subcommand ({known})?")]
        draft = draft_for_script(config, script, given, words)
    for flag in draft.needed:
        if yes or not can_ask():
            place = flag.place or script
            said = f"--{flag.name} is required, and has no default"
            raise ConfigError(place, said, f"deployer init {script} --set {flag.name}=VALUE")
        given[flag.name] = ask(f"--{flag.name}{f' ({flag.help})' if flag.help else ''}:")
    draft = draft_for_script(config, script, given, words) if draft.needed else draft
    say(f"{script}: {format_count(draft.tried, 'flag')} to try")
    return draft.text


def _read_given(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise ConfigError("--set", f"'{one}' is not NAME=VALUE", "--set data=./data")
        found[name.lstrip("-")] = value
    return found


def _read_sweep(call: Call, source: str) -> str:
    _, server, path = call.connect(source, reading=True)
    return f"# The configuration of {path}.\n{dump_config(get_sweep(server.client, path).config)}"


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(str(path), f"cannot be written: {reason}", "name another one") from error
    say(f"written: {path.name if path.name == FILE_NAME else path}")
