"""What a parser said of an agent's commands, as problems of the sweep file; pure."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.scripts.log_calls import Logged
from deployer.sweeps.parameters.keys import nearest
from deployer.sweeps.problem import Problem

TRUE_ANYWAY = "bool"
NUMBERS = ("int", "float")
BUILT_IN = (*NUMBERS, "bool", "str")
GPU = re.compile(r"\b(cuda|gpus?|hip|mps|device|accelerator)\b")


class Complaints:
    """Builds the problems of one script and one sweep."""

    def __init__(
        self,
        config: Mapping[str, Any],
        script: str,
        folder: Path,
        answer: Mapping[str, Any],
        elsewhere: bool = False,
    ) -> None:
        self._config, self._script, self._folder = config, script, folder
        self._answer = answer
        self._elsewhere = elsewhere
        self._flags: Sequence[Mapping[str, Any]] = answer["flags"]
        self._found: dict[tuple[str, str], Problem] = {}

    def list_all(self, corners: Sequence[Mapping[str, Any]]) -> list[Problem]:
        """Return each problem once, of the first configuration that has it."""
        for said, corner in zip(self._answer["problems"], corners, strict=True):
            for problem in said:
                self._add(problem, corner)
        for words in self._answer["left_over"]:
            self._add_left_over(words)
        for corner in corners:
            for name, value in corner.items():
                self._add_doubts(name, value)
        return list(self._found.values())

    def _add(self, said: Mapping[str, Any], corner: Mapping[str, Any]) -> None:
        flag, kind = said["flag"], said["kind"]
        key = (kind, flag or said.get("said", ""))
        if key in self._found:
            return
        if kind == "unclear":
            text = f"{self._script} may not take its command: {said['said']}"
            self._found[key] = Problem(self._path(flag), text, "look at its parser", "warning")
            return
        message, hint = self._word(said)
        sure = self._sure(said, corner)
        self._found[key] = Problem(self._path(flag), message, hint, "error" if sure else "warning")

    def _sure(self, said: Mapping[str, Any], corner: Mapping[str, Any]) -> bool:
        """Tell whether the script would refuse the value where it runs, too.

        A server may hand out 1.0 as 1, no GPU is seen here, and files may be there that are not
        here: only elsewhere do types of the script's own see them. And a range's very end, which
        such a type may refuse, is next to never drawn.
        """
        kind, value = said["kind"], corner.get(said["flag"].lstrip("-"))
        if not self._answer["sure"]:
            return False
        if kind in ("type", "choice") and GPU.search(f"{said['flag']} {value}".lower()):
            return False
        if kind == "type":
            whole = isinstance(value, float) and value.is_integer()
            whole = whole and said.get("whole", True)
            own = said["type"] not in BUILT_IN
            return not whole and not (own and (self._elsewhere or self._is_drawn(said["flag"])))
        return kind != "refused" or not self._elsewhere

    def _is_drawn(self, flag: str) -> bool:
        """Tell whether a flag's value is any number of a range."""
        raw = (self._config.get("parameters") or {}).get(flag.lstrip("-"))
        return isinstance(raw, Mapping) and "min" in raw and "q" not in raw

    def _word(self, said: Mapping[str, Any]) -> tuple[str, str]:
        """Return what is wrong, and what to do about it."""
        flag, value = said["flag"], said.get("value", "")
        where = self._place(said)
        match said["kind"]:
            case "unknown":
                return f"{self._script} has no flag {flag}", self._suggest(flag)
            case "ambiguous":
                near = ", ".join(said["near"])
                return f"{self._script}: {flag} could be {near}", "write the flag's whole name"
            case "missing":
                hint = f"add {flag.lstrip('-')}: {{value: …}}, or write the flag in command"
                hint = hint if flag.startswith("-") else "write it in command"
                return f"{where}: {flag} is required, and the sweep does not give it", hint
            case "no_value":
                hint = "command: [..., '${args_no_boolean_flags}'] instead of '${args}'"
                return f"{where}: {flag} takes no value, and gets {flag}={value}", hint
            case "type" if said.get("words"):
                return f"{where}: {flag} does not take {value!r}", said["words"]
            case "type" if not said["type"]:
                return f"{where}: {flag} does not take {value!r}", "write values that it takes"
            case "choice":
                choices = [str(choice) for choice in said["choices"]]
                return f"{where}: {flag} does not take {value!r}", nearest(value, choices)
            case "type":
                kind = said["type"]
                return f"{where}: {flag} takes {kind}, not {value!r}", _hint_at_type(kind, value)
        hint = f"python {self._script} --help says what it takes"
        return f"{self._script} refuses its command: {said['said'].strip().splitlines()[0]}", hint

    def _suggest(self, flag: str) -> str:
        names = [name for one in self._flags for name in one["names"] if name.startswith("-")]
        near = find_near(flag, names)
        if near == flag:
            return "it is one of a subcommand: write that before '${args}' in command"
        if near:
            one = next(one for one in self._flags if near in one["names"])
            return f"did you mean {near}? ({self._place(one)})"
        return nearest(flag, names) if names else "it has no flags at all"

    def _add_left_over(self, words: Sequence[str]) -> None:
        """Warn of flags that a lenient parser leaves aside, where they look like one of its own."""
        names = [name for one in self._flags for name in one["names"]]
        for word in words:
            flag = word.partition("=")[0]
            near = find_near(flag, names) if flag.startswith("--") else ""
            if near:
                message = f"{self._script} leaves {flag} aside"
                problem = Problem(self._path(flag), message, f"did you mean {near}?", "warning")
                self._found.setdefault(("left over", flag), problem)

    def _add_doubts(self, name: str, value: Any) -> None:
        flag = next((one for one in self._flags if f"--{name}" in one["names"]), None)
        if flag is None:
            return
        path, where = ("parameters", name), self._place(flag)
        if flag["type"] == TRUE_ANYWAY and self._answer["parser"] == "argparse" and value is False:
            message = f"{where}: type=bool takes every text for true, 'False' too"
            hint = "action=argparse.BooleanOptionalAction, or type=lambda text: text == 'True'"
            self._found.setdefault(("bool", name), Problem(path, message, hint, "warning"))
        if isinstance(value, dict) and flag["type"] in ("", "str"):
            message = f"{where}: --{name} gets a mapping as one text, {str(value)[:40]}"
            hint = "read it with ast.literal_eval, or from wandb.config"
            self._found.setdefault(("mapping", name), Problem(path, message, hint, "warning"))

    def _path(self, flag: str) -> tuple[str, ...]:
        name = flag.lstrip("-")
        parameters = self._config.get("parameters") or {}
        if name in parameters:
            return ("parameters", name)
        return ("parameters",) if parameters else ()

    def _place(self, said: Mapping[str, Any]) -> str:
        """Return the file and line where a flag is defined."""
        if not said.get("file"):
            return self._script
        return f"{show_file(said['file'], self._folder)}:{said['line']}"


def check_metric(config: Mapping[str, Any], logged: Logged, script: str) -> Iterator[Problem]:
    """Warn of a metric that no `log` call could write."""
    metric = config.get("metric")
    name = metric.get("name") if isinstance(metric, Mapping) else None
    if not isinstance(name, str) or logged.open or name in logged.names:
        return
    message = f"{script} logs no {name}"
    yield Problem(("metric", "name"), message, nearest(name, sorted(logged.names)), "warning")


def find_near(flag: str, names: Sequence[str]) -> str:
    """Return the name that was probably meant: - and _ are one, and so are - and --."""
    plain = {name.strip("-").replace("_", "-"): name for name in reversed(names)}
    found = difflib.get_close_matches(flag.strip("-").replace("_", "-"), plain, n=1)
    return plain[found[0]] if found else ""


def show_file(path: str, folder: Path) -> str:
    """Return a path as a person in the folder names it."""
    real = Path(path)
    return str(real.relative_to(folder)) if real.is_relative_to(folder) else path


def _hint_at_type(kind: str, value: str) -> str:
    if kind == "int" and _is_number(value):
        return "list whole numbers, or write distribution: int_uniform"
    if value == "None":
        return "leave the parameter out, or have the script read None"
    if kind in NUMBERS:
        return "write numbers as its values"
    return "write values that it takes"


def _is_number(text: str) -> bool:
    try:
        return isinstance(ast.literal_eval(text), int | float)
    except (ValueError, SyntaxError):
        return False
