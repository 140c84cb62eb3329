"""What a site's profile demands of the Jobs of a plan; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any

from deployer.config.profile import Demand, Profile
from deployer.errors import ConfigError
from deployer.kube.kinds import JOB, Manifest, kind_of
from deployer.kube.quantities import parse_quantity

EVERY = "*"  # in a demand's path: each item of a list


def check_demands(profile: Profile, manifests: Iterable[Manifest]) -> None:
    """Raise ConfigError with each demand that a Job does not meet, once."""
    jobs = [one for one in manifests if kind_of(one) == JOB]
    unmet = (_judge(demand, job, profile.site) for demand in profile.demands for job in jobs)
    # Jobs of one plan are alike but for their names.
    found = {str(error): error for error in unmet if error}
    if found:
        raise ConfigError.join(list(found.values()))


def _judge(demand: Demand, job: Manifest, site: str) -> ConfigError | None:
    wrong = [value for value in _find_values(job, demand.path) if not _is_met(demand, value)]
    if not wrong:
        return None
    place = f"Job: {'.'.join(demand.path)}".replace(f".{EVERY}", "[]")
    said = "is missing" if wrong[0] is None else f"is {wrong[0]}"
    return ConfigError(place, f"{said}; {site} demands {_describe(demand)}", _hint(demand))


def _find_values(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """Yield what stands at a path; None where nothing does."""
    if not path:
        yield value
    elif path[0] == EVERY:
        for item in value or ():
            yield from _find_values(item, path[1:])
    else:
        yield from _find_values((value or {}).get(path[0]), path[1:])


def _is_met(demand: Demand, value: Any) -> bool:
    if value is None:
        return demand.at_most is not None
    if demand.one_of and str(value) not in demand.one_of:
        return False
    return demand.at_most is None or _measure(value) <= parse_quantity(demand.at_most)


def _measure(value: Any) -> float:
    try:
        return parse_quantity(value)
    except ValueError:
        return inf


def _describe(demand: Demand) -> str:
    if demand.one_of:
        return " or ".join(demand.one_of)
    return "one" if demand.at_most is None else f"at most {demand.at_most}"


def _hint(demand: Demand) -> str:
    return f"in deployer.yaml, {demand.hint}"
