"""Agents end where some of it is refused: the rest is done, and the refusals are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from deployer.errors import ConfigError, DeployerError, KubeError, Refusals
from deployer.executors.base import Executor
from deployer.launch.scaling import end_agents, end_willing_agents
from deployer.model import Agent, Plan
from tests.project_files import GivenNumber

PATH = "me/proj/abc12345"


class Withdrawn(GivenNumber):
    """Notes for which sweeps the number was withdrawn."""

    def __init__(self, forgotten: list[str | None]) -> None:
        super().__init__(PATH, None)
        self.forgotten = forgotten

    def withdraw(self, sweep_path: str | None = None, *, everyone: bool = False) -> None:
        self.forgotten.append(sweep_path)


class Strict(Executor):
    """Two agents, which may be stopped or not, and a key that nobody may delete."""

    def __init__(self, *, may_stop: bool) -> None:
        self.may_stop = may_stop
        self.forgotten: list[str | None] = []
        self.wanted = Withdrawn(self.forgotten)

    def apply(self, plan: Plan, api_keys: dict[str, str]) -> Sequence[Agent]:
        raise NotImplementedError

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        return [Agent(name, PATH, "running", 0.0) for name in ("a", "b")]

    def drain(self, names: Sequence[str]) -> None:
        raise NotImplementedError

    def stop(self, names: Sequence[str]) -> Sequence[str]:
        if not self.may_stop:
            raise KubeError("cannot delete Job b", "ask for it", status=403)
        return names

    def forget(self, sweep_path: str | None = None, *, everyone: bool = False) -> bool:
        self.forgotten.append(sweep_path)
        raise KubeError("cannot delete Secret keys", "ask for that", status=403)

    def log_lines(self, names: Sequence[str], follow: bool) -> Iterator[tuple[str, str]]:
        yield from ()


def test_what_is_refused_is_raised_once_the_rest_is_done() -> None:
    strict = Strict(may_stop=False)
    with pytest.raises(DeployerError) as caught:
        end_agents(strict, PATH)
    assert strict.forgotten == [PATH, PATH]  # first how many are wanted
    assert [(one.text, one.fix) for one in caught.value.findings] == [
        ("cannot delete Job b", "ask for it"),
        ("cannot delete Secret keys", "ask for that"),
    ]
    assert caught.value.exit_code == 1


def test_one_refusal_is_raised_as_it_is_and_who_ended_is_known() -> None:
    refusals = Refusals()
    assert end_willing_agents(Strict(may_stop=True), PATH, refusals).names == ("a", "b")
    with pytest.raises(KubeError, match="cannot delete Secret keys"):
        refusals.raise_all()


def test_the_same_words_count_once() -> None:
    refusals = Refusals()
    for _ in range(2):
        with refusals.noted():
            raise ConfigError("--on", "is wrong", "mend it")
    with pytest.raises(ConfigError, match="--on: is wrong"):
        refusals.raise_all()
