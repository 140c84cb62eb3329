"""What a parser said of an agent's commands, as problems of the sweep file; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.scripts.log_calls import Logged
from deployer.scripts.rehearsal.wording import find_near, is_sure, show_place, word
from deployer.sweeps.parameters.keys import nearest
from deployer.sweeps.problem import Problem

TRUE_ANYWAY = "bool"


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
        message, hint = word(said, self._script, self._flags, str(self._folder))
        sure = self._sure(said, corner)
        self._found[key] = Problem(self._path(flag), message, hint, "error" if sure else "warning")

    def _sure(self, said: Mapping[str, Any], corner: Mapping[str, Any]) -> bool:
        """Tell whether the script would refuse the value where it runs, too."""
        flag = said["flag"].lstrip("-")
        drawn = flag in list_drawn(self._config)
        return self._answer["sure"] and is_sure(said, corner.get(flag), drawn, self._elsewhere)

    def _add_left_over(self, words: Sequence[str]) -> None:
        """Warn of flags that a lenient parser leaves aside, where they look like one of its own."""
        names = [name for one in self._flags for name in one["names"]]
        for given in words:
            flag = given.partition("=")[0]
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
        if flag["paired"] and flag["default"] is True and value is False and self._drops_false():
            message = f"{where}: --{name} is on by default, and no agent writes --no-{name}"
            hint = "default=False in the script, or a flag that takes a value"
            problem = Problem(path, message, hint, "warning")
            self._found.setdefault(("dropped", name), problem)
        if isinstance(value, dict) and flag["type"] in ("", "str"):
            message = f"{where}: --{name} gets a mapping as one text, {str(value)[:40]}"
            hint = "read it with ast.literal_eval, or from wandb.config"
            self._found.setdefault(("mapping", name), Problem(path, message, hint, "warning"))

    def _drops_false(self) -> bool:
        return "${args_no_boolean_flags}" in (self._config.get("command") or ())

    def _path(self, flag: str) -> tuple[str, ...]:
        name = flag.lstrip("-")
        parameters = self._config.get("parameters") or {}
        if name in parameters:
            return ("parameters", name)
        return ("parameters",) if parameters else ()

    def _place(self, said: Mapping[str, Any]) -> str:
        """Return the file and line where a flag is defined."""
        return show_place(said, self._script, str(self._folder))


def check_metric(config: Mapping[str, Any], logged: Logged, script: str) -> Iterator[Problem]:
    """Warn of a metric that no `log` call could write."""
    metric = config.get("metric")
    name = metric.get("name") if isinstance(metric, Mapping) else None
    if not isinstance(name, str) or logged.open or name in logged.names:
        return
    message = f"{script} logs no {name}"
    yield Problem(("metric", "name"), message, nearest(name, sorted(logged.names)), "warning")


def list_drawn(config: Mapping[str, Any]) -> list[str]:
    """Return the parameters whose value is any number of a range."""
    given = (config.get("parameters") or {}).items()
    return [name for name, raw in given if isinstance(raw, Mapping) and _is_range(raw)]


def _is_range(raw: Mapping[str, Any]) -> bool:
    return "min" in raw and "q" not in raw
