"""The plan: what `apply` will do, computed before anything is changed; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, count, islice

from deployer.model import AgentPlan, Plan


def build_plan(
    sweep_path: str,
    base_url: str,
    folder: str,
    replicas: int,
    existing: Sequence[str] = (),
    leaving: Sequence[str] = (),
    gpus: Sequence[str] = (),
    environment: Sequence[tuple[str, str]] = (),
    avoided_nodes: Sequence[str] = (),
    own_keys: bool = True,
    deadline: float | None = None,
    preferred: Sequence[str] = (),
) -> Plan:
    """Plan `replicas` agents: those in `existing` stay, the rest are named `<sweep id>-a<number>`.

    The `preferred` names are taken first, then the smallest free number, so that an agent that
    replaces an ended one has its name and folder. Names in `leaving` stay unused. GPUs are dealt
    round robin by number; with more agents than GPUs, several share one.
    """
    sweep_id = sweep_path.rpartition("/")[2]
    taken = {*existing, *leaving}
    numbered = (f"{sweep_id}-a{n}" for n in count(1))
    free = (name for name in dict.fromkeys(preferred) if name not in taken)
    unused = (name for name in numbered if name not in {*taken, *preferred})
    missing = max(0, replicas - len(existing))
    names = [*existing, *islice(chain(free, unused), missing)]
    dealt = {name: _deal(name, gpus) for name in names}
    on_gpu = Counter(dealt.values())
    agents = (AgentPlan(n, own, tuple(environment), on_gpu[own]) for n, own in dealt.items())
    ordered = tuple(sorted(agents, key=lambda a: _number(a.name)))
    return Plan(
        sweep_path,
        base_url,
        folder,
        ordered,
        tuple(avoided_nodes),
        own_keys,
        deadline,
        asked=len(ordered),
    )


def _deal(name: str, gpus: Sequence[str]) -> tuple[str, ...]:
    return (gpus[(_number(name) - 1) % len(gpus)],) if gpus else ()


def _number(name: str) -> int:
    """Return the number at the end of an agent's name; 0 for a name that is not ours."""
    end = name.rpartition("-a")[2]
    return int(end) if end.isdigit() else 0
