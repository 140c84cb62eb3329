"""Strikes processes of one test while a run is in the middle: at a step, not at a time."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from tests.faults.processes import Found, Kind, find_processes
from tests.faults.scenario import Scenario

FIRST_STEP = 5
APART = 3  # steps between two strikes; four strikes and a SIGCONT fit into a run, or five


@dataclass(frozen=True)
class Blow:
    """A signal to one process of a kind."""

    kind: Kind
    signal: signal.Signals

    def __str__(self) -> str:
        return f"{self.signal.name}-{self.kind}"


def strike(scenario: Scenario, blows: Sequence[Blow]) -> None:
    """Strike one blow after another, each while a trainer waits at a later step than before.

    The victim is of that trainer's family. SIGSTOP is followed by SIGCONT once a trainer has logged
    the rows up to the next step. The scenario must hold its trainers at FIRST_STEP.
    """
    step = FIRST_STEP
    for blow in blows:
        victim = _find_victim(scenario, blow.kind, scenario.wait_for_step(step))
        victim.process.send_signal(blow.signal)
        scenario.note(f"{blow} {victim.process.pid} at step {step}")
        step += APART
        scenario.steps.hold_at(step)
        if blow.signal == signal.SIGSTOP:
            scenario.wait_for_step(step)
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.process.send_signal(signal.SIGCONT)
    scenario.steps.hold_at(None)


def kill_each_supervisor(scenario: Scenario, kinds: Sequence[str]) -> None:
    """Kill the supervisors of several kinds of trainers once one of each waits at FIRST_STEP.

    The kinds are those of `trainers.UNHELPFUL`.
    """
    trainers: dict[str, psutil.Process] = {}

    def waiting() -> bool:
        for process in scenario.steps.find_waiting(FIRST_STEP):
            marks = {kind: scenario.project / f"{kind}-{process.pid}" for kind in kinds}
            trainers.update({kind: process for kind, mark in marks.items() if mark.exists()})
        return len(trainers) == len(kinds)

    scenario.wait_for(waiting, f"trainers at step {FIRST_STEP}: {', '.join(kinds)}", 90)
    for kind, trainer in trainers.items():
        victim = _find_victim(scenario, "supervisor", trainer)
        victim.process.kill()
        scenario.note(f"SIGKILL-supervisor {victim.process.pid} of {kind}")


def _find_victim(scenario: Scenario, kind: Kind, trainer: psutil.Process) -> Found:
    """Wait for a process of a kind, the one that the trainer belongs to if there are several."""
    family = _find_family(trainer)
    living: list[Found] = []

    def found() -> bool:
        living.extend(one for one in find_processes(scenario.state) if one.kind == kind)
        return bool(living)

    scenario.wait_for(found, f"a process: {kind}")
    by_closeness = sorted(living, key=lambda one: family.get(one.process.pid, len(family)))
    return by_closeness[0]


def _find_family(trainer: psutil.Process) -> dict[int, int]:
    """Return the process ids of a trainer, what started it and what it started, closest first.

    Then come those whose supervisor is the same: a warm run is no child of its agent.
    """
    relatives = [trainer]
    with contextlib.suppress(psutil.Error):
        elders = trainer.parents()
        relatives += [*elders, *trainer.children(recursive=True)]
        relatives += [one for elder in elders for one in elder.children(recursive=True)]
    places: dict[int, int] = {}
    for place, one in enumerate(relatives):
        places.setdefault(one.pid, place)
    return places
