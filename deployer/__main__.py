"""The entry point of the command line: errors become messages and exit codes here."""

from __future__ import annotations

import errno
import gc
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper

from typer.exceptions import TyperException
from typer.main import get_command

from deployer.errors import DeployerError, ExitCode
from deployer.waiting import COMMAND

YOUNG_OBJECTS = 100_000  # with Python's 700, reading thousands of runs takes a third longer
JSON_FORMS = ("-o json", "-ojson", "--output json", "--output=json")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0, or what errors.py says; 130 after Ctrl-C."""
    from deployer.cli.output import render

    words = list(sys.argv[1:] if arguments is None else arguments)
    # Open /dev/null for each closed standard stream, before another file gets its number. Output to
    # a closed stdout still fails, with EBADF, because /dev/null is opened for reading.
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_RDONLY))  # noqa: SIM115 - lasts as the process
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=render.NAME)  # replace unencodable characters
    gc.set_threshold(YOUNG_OBJECTS)
    logging.getLogger().addHandler(logging.NullHandler())  # drop the clients' own messages
    sys.exit(run(words))


def run(words: list[str]) -> int:
    """Run one command and return its exit code; an unexpected error keeps its traceback."""
    from deployer.cli import app
    from deployer.cli.output.log import close_log

    COMMAND.begin_command()
    try:
        code = get_command(app).main(
            words or ["--help"], prog_name="deployer", standalone_mode=False
        )
    except DeployerError as error:
        from deployer.cli.output.render import show_error

        show_error(error, as_json=wants_json(words))
        return error.exit_code
    except TyperException as error:
        return _refuse(error, words)
    except OSError as error:
        if error.errno == errno.EBADF and error.filename is None:  # stdout was closed: `>&-`
            _discard_output()
            return ExitCode.REFUSED
        return _say_unwritable(error, words)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        COMMAND.end_command()
        close_log()
    return code if isinstance(code, int) else ExitCode.DONE


def _say_unwritable(error: OSError, words: Sequence[str]) -> int:
    """Report a full disk or an unwritable file: the user's problem, not a bug; raises others."""
    from deployer.agent.host.status import FULL, is_unwritable
    from deployer.cli.output.render import show_error

    if error.errno not in FULL and not (error.filename and is_unwritable(error)):
        raise error
    where = str(error.filename or "stdout or a file of deployer's")
    look = f"make room: df -h {error.filename or '.'}"
    if error.errno not in FULL:
        look = f"see who may use it: ls -ld {error.filename}"
    said = f"{where}: {(error.strerror or str(error)).lower()}"
    shown = DeployerError(said, f"{look}; then type the command again")
    show_error(shown, as_json=wants_json(words))
    if error.filename is None:
        _discard_output()
    return shown.exit_code


def _discard_output() -> None:
    """Discard the buffered stdout: Python would retry at exit, and exit with 120."""
    with suppress(OSError):  # a stdout without a file descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def wants_json(words: Sequence[str]) -> bool:
    """Return True if `-o json` was given, even if the command line is otherwise wrong."""
    own = words[: words.index("--")] if "--" in words else words
    joined = f" {' '.join(own)} "
    return any(f" {form} " in joined for form in JSON_FORMS)


def _refuse(error: TyperException, words: Sequence[str]) -> int:
    """Show a wrong command line like any other error."""
    from deployer.cli.output.render import show_error
    from deployer.cli.shell.usage import build_usage_error

    show_error(build_usage_error(error), as_json=wants_json(words))
    return error.exit_code


if __name__ == "__main__":
    main()
