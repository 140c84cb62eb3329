"""A sweep file, and deployer.yaml, written for a script that has none; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.scripts.flags import Flag
from deployer.scripts.log_calls import Logged
from deployer.scripts.ranges import Parameter, choose_parameter
from deployer.sweeps.program import DEFAULT_COMMAND

SWITCHES = "${args_no_boolean_flags}"
RUNS = 20
MOST_RUNS_OF_A_GRID = 48
# What is better when it is larger; everything else when it is smaller.
LARGER = (
    "acc",
    "f1",
    "auc",
    "score",
    "reward",
    "return",
    "bleu",
    "iou",
    "precision",
    "recall",
    "r2",
)
HELD_OUT = ("val", "valid", "validation", "eval", "test", "dev")
SETTINGS = """\
# What holds for every sweep of this folder; each key is in docs/reference.md. All may be left out.

# on: local           # or kubernetes, gke
# replicas: 2         # how many agents work at once
# wandb: embedded     # or the address of a W&B server
# project: my-project # the sweeps' project
# warm: false         # start a new Python for each run

# kubernetes:
#   image: ghcr.io/me/trainer:1
#   gpu: 1
"""


MACROS = {"": "${args}", "hydra": "${args_no_hyphens}"}


@dataclass(frozen=True)
class Draft:
    """A sweep file: `text` is YAML, `needed` are flags whose value only a person knows.

    Without text, one of the `subcommands` is to be chosen first.
    """

    text: str
    needed: tuple[Flag, ...]
    tried: int
    subcommands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Start:
    """How a script is started: `words` come before its flags, and `style` is hydra for key=value.

    `interpreter` are words such as `-m pkg`, instead of the program.
    """

    program: str
    interpreter: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    style: str = ""

    def build_command(self, switches: bool = False) -> list[str]:
        """Return the sweep's command; `switches` are flags that take no value."""
        script = self.interpreter or ("${program}",)
        macro = SWITCHES if switches and not self.style else MACROS[self.style]
        return ["${env}", "${interpreter}", *script, *self.words, macro]


def draft_sweep(
    start: Start,
    flags: Sequence[Flag],
    logged: Logged,
    given: Mapping[str, str],
    left_out: Sequence[str] = (),
) -> Draft:
    """Return the sweep of a script; `given` are values of flags that are not searched.

    Flags that are `left_out` stay as comments, as those do that are rarely searched.
    """
    chosen: dict[str, Parameter] = {name: {"value": read_value(v)} for name, v in given.items()}
    for flag in flags:
        parameter = None if flag.name in (*given, *left_out) else choose_parameter(flag)
        if parameter:
            chosen[flag.name] = parameter
    tried = [name for name in chosen if name not in given]
    rest = [flag for flag in flags if flag.name not in chosen]
    switches = any(flag.plain and flag.name in chosen for flag in flags)
    lines = [
        f"# Written by `deployer init` from the flags of {start.program}: change what you like.",
        f"program: {start.program}",
        *_write_command(start.build_command(switches)),
        *_write_method(list(chosen.values())),
        *_write_metric(logged),
        "parameters:",
        *(line for name, one in chosen.items() for line in _write_parameter(name, one, flags)),
        *_write_rest([flag for flag in rest if not flag.required]),
    ]
    needed = tuple(flag for flag in rest if flag.required)
    return Draft("\n".join(lines) + "\n", needed, len(tried))


def write_by_hand(start: Start) -> str:
    """Return the six lines of a sweep file to copy where nothing is known of the flags."""
    return "\n".join(
        (
            f"program: {start.program}",
            "command: [" + ", ".join(_show(word) for word in start.build_command()) + "]",
            "method: grid",
            "metric: {name: loss, goal: minimize}",
            "parameters:",
            "  lr: {values: [0.1, 0.01]}",
        )
    )


def choose_metric(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the metric that a script was probably written for, and its goal."""

    def rank(name: str) -> tuple[int, int, int, str]:
        low = name.lower()
        held_out = any(word in low for word in HELD_OUT)
        return (not held_out, not _is_larger(low), "loss" not in low, name)

    known = [name for name in names if _is_larger(name.lower()) or "loss" in name.lower()]
    if not known:
        return None
    best = min(known, key=rank)
    return best, "maximize" if _is_larger(best.lower()) else "minimize"


def read_value(text: str) -> Any:
    """Return the number or the switch that a text stands for, else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float | bool) else text


def _is_larger(name: str) -> bool:
    return any(word in name for word in LARGER)


def _write_command(words: Sequence[str]) -> list[str]:
    if list(words) == list(DEFAULT_COMMAND):
        return []
    return ["command: [" + ", ".join(_show(word) for word in words) + "]"]


def _write_method(parameters: Sequence[Parameter]) -> list[str]:
    count = 1
    for one in parameters:
        count = 0 if "min" in one else count * len(one.get("values", [1]))
    if 0 < count <= MOST_RUNS_OF_A_GRID:
        return [f"method: grid # {count} runs; or random, bayes"]
    return ["method: random # or bayes, grid", f"run_cap: {RUNS}"]


def _write_metric(logged: Logged) -> list[str]:
    found = choose_metric(sorted(logged.names))
    if not found:
        return [
            "# metric: {name: val_loss, goal: minimize} # what the script logs: it ranks the runs"
        ]
    name, goal = found
    return [f"metric: {{name: {_show(name)}, goal: {goal}}}"]


def _write_parameter(name: str, parameter: Parameter, flags: Sequence[Flag]) -> list[str]:
    flag = next((one for one in flags if one.name == name), Flag(name))
    body = ", ".join(f"{key}: {_show(value)}" for key, value in parameter.items())
    return [f"  {_show(name)}: {{{body}}}{_comment(flag)}"]


def _write_rest(rest: Sequence[Flag]) -> list[str]:
    if not rest:
        return []
    lines = [f"  # {_show(f.name)}: {{value: {_show_default(f)}}}{_comment(f)}" for f in rest]
    return ["  # As the script has them, unless you write them above:", *lines]


def _show_default(flag: Flag) -> str:
    return _show(bool(flag.default) if flag.plain else flag.default)


def _comment(flag: Flag) -> str:
    text = flag.help if len(flag.help) <= 60 else flag.help[:57] + "..."
    return f" # {text}" if text else ""


def _show(value: Any) -> str:
    """Return a value as YAML 1.1 reads it back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    if isinstance(value, list):
        return "[" + ", ".join(_show(one) for one in value) + "]"
    if isinstance(value, str):
        plain = value.replace("_", "").replace("-", "").isalpha() and value.lower() not in WORDS
        return value if plain and not value.startswith("-") else json.dumps(value)
    return str(value)


# What YAML 1.1 reads as something else than text.
WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
