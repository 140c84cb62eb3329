"""The sweep of `deployer run`: one configuration, which is a command as it was typed; pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from deployer.errors import ConfigError
from deployer.sweeps.program import ASSIGNMENT, NO_PROGRAM, list_scripts
from deployer.sweeps.sweep_file import SweepFile, dump_config, parse_sweep

PLACE = "deployer run"  # in place of a sweep file's name
RUN_PARAMETER = "deployer_run"  # W&B has no sweep without one
TITLE_CHARACTERS = 80

# Runs in the user's image: standard library only, Python 3.8 or newer. It starts the command as its
# child, hands signals on and ends as the command ended. After exit code 0 it sees that there is a
# run on the server: a script without wandb has opened none, unless a wrapper reads its metrics and
# opens the run. `allow`, since a script may have opened
# one in a folder of its own: that one is kept as it is.
START = """\
import sys
sys.path = [path for path in sys.path if path]
import glob, json, os, signal, subprocess
child = None

def hand_on(number, _):
    if child:
        child.send_signal(number)

def start(words, **more):
    global child
    try:
        child = subprocess.Popen(words, **more)
    except OSError as error:
        sys.stderr.write("deployer run: %s: %s\\n" % (words[0], error.strerror))
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
    return child.wait()

def list_runs():
    folder = os.path.join(os.environ.get("WANDB_DIR") or ".", "wandb")
    return set(glob.glob(os.path.join(glob.escape(folder), "run-*-" + os.environ["WANDB_RUN_ID"])))

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, hand_on)
before = list_runs()
code = start(json.loads(sys.argv[1]))
wrapped = "DEPLOYER_METRICS_CLAIM" in os.environ
if code == 0 and not wrapped and list_runs() == before:
    more = {"WANDB_RESUME": "allow", "WANDB_SILENT": "true"}
    record = [sys.executable, "-c", "import wandb; wandb.init(); wandb.finish()"]
    code = start(record, env=dict(os.environ, **more))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def build_command_sweep(words: Sequence[str]) -> SweepFile:
    """Return the sweep that runs a command once; raises ConfigError if no file could hold it."""
    if words and ASSIGNMENT.match(words[0]):
        hint = f"deployer run -- env {shlex.join(words)}"
        raise ConfigError(PLACE, NO_PROGRAM % words[0], hint)
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            said = f"the word {word!r} is not UTF-8"
            raise ConfigError(PLACE, said, "pass it in a file") from None
    return parse_sweep(dump_config(build_command_config(words)), PLACE)


def build_command_config(words: Sequence[str]) -> dict[str, Any]:
    """Return its configuration. The words are JSON, in which nothing looks like a macro.

    An agent replaces `${args}` and `${envvar:NAME}`, drops what else is `${…}`, and has no way to
    quote one.
    """
    line = shlex.join(words)
    title = line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"
    scripts = [name for _, name in list_scripts({"command": list(words)})]
    escaped = json.dumps(list(words)).replace("$", "\\u0024")
    return {
        "name": title,
        **({"program": scripts[0]} if scripts else {}),
        "method": "grid",
        "command": ["${env}", "${interpreter}", "-c", START, escaped],
        "parameters": {RUN_PARAMETER: {"value": line}},
    }
