"""A draft of a sweep file for a script, from its flags and their likely ranges."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.scripts.script_text import Logged
from deployer.sweeps.program import DEFAULT_COMMAND

DraftParameter = Mapping[str, Any]
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
MOST_CHOICES = 12
# Words of a name, and the range if the default does not suggest one.
LOGARITHMIC = (
    (("lr",), (1e-4, 1e-1)),
    (("learning", "rate"), (1e-4, 1e-1)),
    (("wd",), (1e-6, 1e-2)),
    (("weight", "decay"), (1e-6, 1e-2)),
    (("l1",), (1e-6, 1e-2)),
    (("l2",), (1e-6, 1e-2)),
    (("reg",), (1e-6, 1e-2)),
    (("temperature",), (0.1, 10.0)),
)
LINEAR = (
    (("dropout",), (0.0, 0.5)),
    (("drop",), (0.0, 0.5)),
    (("smoothing",), (0.0, 0.2)),
    (("momentum",), (0.8, 0.99)),
    (("gamma",), (0.8, 0.999)),
    (("mixup",), (0.0, 0.5)),
)
DOUBLING = (
    (("batch",), (32, 64, 128)),
    (("bs",), (32, 64, 128)),
    (("hidden",), (64, 128, 256)),
    (("width",), (64, 128, 256)),
    (("dim",), (64, 128, 256)),
    (("channels",), (16, 32, 64)),
    (("units",), (64, 128, 256)),
    (("filters",), (16, 32, 64)),
    (("embed",), (64, 128, 256)),
)
COUNTED = (("layers",), ("depth",), ("blocks",))
# Rarely searched: for these, an int or a switch is not varied.
FIXED = frozenset(
    (
        *(
            "seed",
            "workers",
            "epochs",
            "epoch",
            "steps",
            "iters",
            "iterations",
            "device",
            "gpu",
            "gpus",
        ),
        *(
            "cuda",
            "cpu",
            "debug",
            "verbose",
            "quiet",
            "wandb",
            "log",
            "save",
            "resume",
            "test",
            "eval",
        ),
        *("dry", "run", "local", "rank", "port", "fast", "profile", "compile", "pin", "download"),
    )
)
DECADE = 10.0
SWITCHES = "${args_no_boolean_flags}"
RUNS = 20
MOST_RUNS_OF_A_GRID = 48
# Metrics to maximize; all others are minimized.
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
# Settings for every sweep of this folder, all optional; docs/reference.md lists each key.

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
# Words that YAML 1.1 does not read as text.
WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


@dataclass(frozen=True)
class Flag:
    """One flag; `default` is a plain value, else None, and `plain` flags take no value.

    `paired` flags have a --no-NAME that no agent writes.
    """

    name: str
    type: str = ""
    choices: tuple[Any, ...] = ()
    default: Any = None
    required: bool = False
    plain: bool = False
    many: bool = False
    paired: bool = False
    help: str = ""
    place: str = ""


def parse_flag(said: Mapping[str, Any], place: str) -> Flag | None:
    """Return a flag from a rehearsal's answer; None if an agent cannot write it as --NAME."""
    names = [name[2:] for name in said["names"] if name.startswith("--")]
    if not names:
        return None
    default = said["default"]
    return Flag(
        name=names[0],
        type=said["type"] or _name_type(default),
        choices=tuple(said["choices"]),
        default=default,
        required=said["required"],
        plain=not said["takes_value"],
        many=said["many"],
        paired=said["paired"],
        help=" ".join(str(said["help"]).split()),
        place=place,
    )


def _name_type(default: Any) -> str:
    return "" if default is None else type(default).__name__


def choose_parameter(flag: Flag) -> DraftParameter | None:
    """Return a sweep's parameter for a flag; None if it should not be varied."""
    words = [word.lower() for word in WORD.findall(flag.name)]
    if flag.many or FIXED & {*words}:
        return None
    if flag.choices:
        return {"values": list(flag.choices)} if 1 < len(flag.choices) <= MOST_CHOICES else None
    if flag.plain:
        return {"values": [True, False]} if flag.default in (None, False) else None
    if flag.type == "float":
        default = flag.default
        for name, bounds in LOGARITHMIC:
            if _has(words, name):
                low, high = bounds
                if _is_number(default) and default > 0:
                    low, high = _round(default / DECADE), _round(default * DECADE)
                return {"distribution": "log_uniform_values", "min": low, "max": high}
        for name, (low, high) in LINEAR:
            if _has(words, name):
                if _is_number(default):
                    low, high = min(low, default), max(high, default)
                return {"distribution": "uniform", "min": low, "max": high}
        return None
    if flag.type == "int":
        return _choose_int(words, flag.default)
    return None


def _choose_int(words: list[str], default: Any) -> DraftParameter | None:
    known = _is_number(default) and default > 0
    for name, values in DOUBLING:
        if _has(words, name):
            doubled = sorted({max(1, default // 2), default, default * 2}) if known else [*values]
            return {"values": doubled}
    if any(_has(words, name) for name in COUNTED):
        middle = default if known else 2
        return {"distribution": "int_uniform", "min": max(1, middle - 1), "max": middle + 1}
    return None


def _has(words: list[str], name: tuple[str, ...]) -> bool:
    return {*name} <= {*words}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _round(value: float) -> float:
    return float(f"{value:.2g}")


@dataclass(frozen=True)
class Draft:
    """A sweep file: `text` is YAML, `needed` are flags whose value only the user knows.

    Without text, the user must choose one of the `subcommands` first.
    """

    text: str
    needed: tuple[Flag, ...]
    tried: int
    subcommands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Start:
    """How to start a script: `words` precede its flags, and `style` is hydra for key=value.

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
    """Return a script's sweep; `given` are values of flags that are not searched.

    Flags that are `left_out` stay as comments, and so do rarely searched ones.
    """
    chosen: dict[str, DraftParameter] = {
        name: {"value": read_value(v)} for name, v in given.items()
    }
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
    """Return the six lines of a sweep file to copy if the flags are unknown."""
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
    """Return the script's likely metric, and its goal."""

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
    """Return the number or the boolean that a text represents, else the text."""
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


def _write_method(parameters: Sequence[DraftParameter]) -> list[str]:
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


def _write_parameter(name: str, parameter: DraftParameter, flags: Sequence[Flag]) -> list[str]:
    flag = next((one for one in flags if one.name == name), Flag(name))
    body = ", ".join(f"{key}: {_show(value)}" for key, value in parameter.items())
    return [f"  {_show(name)}: {{{body}}}{_comment(flag)}"]


def _write_rest(rest: Sequence[Flag]) -> list[str]:
    if not rest:
        return []
    lines = [f"  # {_show(f.name)}: {{value: {_show_default(f)}}}{_comment(f)}" for f in rest]
    return ["  # The script's defaults, unless you set them above:", *lines]


def _show_default(flag: Flag) -> str:
    return _show(bool(flag.default) if flag.plain else flag.default)


def _comment(flag: Flag) -> str:
    text = flag.help if len(flag.help) <= 60 else flag.help[:57] + "..."
    return f" # {text}" if text else ""


def _show(value: Any) -> str:
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
