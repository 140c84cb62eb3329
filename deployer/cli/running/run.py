"""`deployer run`: one training run, whose command stands behind `--`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from deployer.cli.running.up import run_to_end
from deployer.cli.running.watch import Following
from deployer.cli.shell.call import App, Call, Command
from deployer.cli.shell.options import (
    CapacityOption,
    DetachOption,
    DownAfterOption,
    MaxTimeOption,
    NoCheckOption,
    PendingTimeoutOption,
    PlainOption,
    RetriesOption,
)
from deployer.cli.shell.usage import UsageError
from deployer.launch.provision import describe_file, telling_remains
from deployer.launch.request import Request
from deployer.sweeps.creation import Draws
from deployer.sweeps.sweep_file import PLACE, build_command_sweep

app = App()
END = "--"
WORDS = "deployer.words"  # in the context: what stood behind `--`


class CommandBehindDashes(Command):
    """A command of ours whose arguments, all behind `--`, are another command's words."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read our own flags, and keep the rest as it is; raises UsageError without `--`."""
        end = args.index(END) if END in args else len(args)
        own, words = args[:end], args[end + 1 :]
        ctx.allow_extra_args, ctx.allow_interspersed_args = True, False
        super().parse_args(ctx, list(own))
        if stray := [*ctx.args]:
            flags = own[: len(own) - len(stray)]
            behind = [*stray, END, *words] if end < len(args) else stray
            typed = shlex.join(["deployer", "run", *flags, END, *behind])
            raise UsageError(f"{stray[0]}: write the command after {END}", typed)
        if not words:
            typed = shlex.join(["deployer", "run", *own, END, "python", "train.py"])
            raise UsageError(f"deployer run: write a command after {END}", typed)
        ctx.meta[WORDS] = tuple(words)
        return []

    def collect_usage_pieces(self, _ctx: Any) -> list[str]:
        """Return what the usage line shows."""
        return ["[OPTIONS]", "-- COMMAND..."]


@app.command(cls=CommandBehindDashes)
def run(
    call: Call,
    plain: PlainOption = False,
    detach: DetachOption = False,
    retries: RetriesOption = None,
    max_time: MaxTimeOption = None,
    pending_timeout: PendingTimeoutOption = None,
    down_after: DownAfterOption = False,
    wait_for_capacity: CapacityOption = None,
    no_check: NoCheckOption = False,
) -> None:
    """Run one command as a sweep of one run, with its arguments unchanged.

    `results`, `agents logs` and `down` work on it as on any sweep. A command that
    exits with 0 has succeeded, even without wandb. Each call of `deployer run` starts a new run.
    Exit codes: 0 if the command succeeded, 3 if not; 1 or 2 if `run` refused to start or lost the
    server. Ctrl-C detaches (130).
    """
    following = Following(
        call.output, call.yes, plain, detach, down_after=down_after, pending_seconds=pending_timeout
    )
    following.check()
    words = call.meta[WORDS]
    file = Path(PLACE)
    config = call.read(replicas=1).with_settings(warm=False)  # nothing to fork for a single run
    with telling_remains(lambda failure: describe_file(config, file, failure)):
        request = Request(
            file,
            build_command_sweep(words),
            Draws(None, retries),
            continued=False,
            max_seconds=max_time,
            capacity_seconds=wait_for_capacity or 0.0,
            check_script=not no_check,
            words=words,
        )
        run_to_end(config, request, following)
