"""Chooses the next location or GPU after a stockout or a quota; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deployer.gke.specification.parts import region_of

STOCKOUT = "GCE_STOCKOUT"
QUOTA = "GCE_QUOTA_EXCEEDED"
# Found by asking before anything is made; each is about its location and choice of GPUs alone.
NOT_OFFERED = "NOT_OFFERED"
TOO_LITTLE_QUOTA = "TOO_LITTLE_QUOTA"

FIRST_WAIT_SECONDS = 2.0  # before the places are gone through again
LONGEST_WAIT_SECONDS = 300.0  # room comes and goes within minutes

_ZONE = re.compile(r"\b[a-z]+-[a-z]+[0-9]+-[a-z][a-z0-9]*\b")
# Google names zones with room as data (`zonesAvailable: a,b`) and in words ("Consider trying your
# request in the a, b zone(s)").
_NAMED = (
    re.compile(r"zonesAvailable\W{1,4}([a-z0-9 ,-]+)"),
    re.compile(r"[Tt]ry(?:ing)? your request in the ([a-z0-9 ,-]+?) zone"),
)
_QUOTAS = (
    re.compile(r"resource:? \\?\"([A-Z0-9_]+)"),
    re.compile(r"[Qq]uota '([A-Za-z0-9_.-]+)' exceeded"),
)
_GPUS = re.compile(r"nvidia|gpu|accelerator", re.IGNORECASE)
_EVERYWHERE = re.compile(r"ALL_REGIONS|project quota|globally")


@dataclass(frozen=True)
class Refusal:
    """A refusal by Google: location, choice of GPUs, STOCKOUT or QUOTA, its sentence, a remedy.

    Or one that is known before: NOT_OFFERED, TOO_LITTLE_QUOTA.
    """

    location: str
    reason: str
    sentence: str
    hint: str = ""
    choice: int = 0

    @property
    def everywhere(self) -> bool:
        """Tell whether every location would refuse: the quota counts the whole project."""
        return self.reason == QUOTA and bool(_EVERYWHERE.search(self.sentence))

    @property
    def of_gpus(self) -> bool:
        """Tell whether it is about these GPUs, so that others may be had in the same place."""
        return bool(_GPUS.search(self.sentence))


def is_refusal(reason: str) -> bool:
    """Tell whether a CloudError's reason means that there may be room elsewhere or later."""
    return reason in (STOCKOUT, QUOTA)


def next_try(
    locations: Sequence[str], choices: int, refusals: Sequence[Refusal]
) -> tuple[str, int] | None:
    """Return the location and the choice of GPUs to ask for next; None once all have refused.

    The order is the specification's: all choices that make sense in one location, then the next
    location. Zones that a refusal names as having room come right after the place that refused, and
    only in regions that the specification names: data may have to stay there.
    """
    if any(refusal.everywhere for refusal in refusals):
        return None
    places = (
        (location, choice) for location in _order(locations, refusals) for choice in range(choices)
    )
    return next((one for one in places if not _is_hopeless(*one, refusals)), None)


def _is_hopeless(location: str, choice: int, refusals: Sequence[Refusal]) -> bool:
    """Tell whether a refusal covers this too: a quota counts its region, not only a zone."""
    return any(
        (refusal.choice == choice or not refusal.of_gpus)
        and (
            refusal.location == location
            or (refusal.reason == QUOTA and region_of(refusal.location) == region_of(location))
        )
        for refusal in refusals
    )


def _order(locations: Sequence[str], refusals: Sequence[Refusal]) -> Iterator[str]:
    regions = {region_of(one) for one in locations}
    named = {one.location: read_zones(one.sentence) for one in refusals}
    for location in locations:
        yield location
        reached = [location]
        for place in reached:
            new = [z for z in named.get(place, ()) if z not in reached and region_of(z) in regions]
            reached += new
            yield from new


def wait_seconds(passes: int, left_seconds: float) -> float | None:
    """Return how long to wait before the next pass over all places; None if time is up."""
    if left_seconds <= 0:
        return None
    return min(FIRST_WAIT_SECONDS * 2.0 ** (passes - 1), LONGEST_WAIT_SECONDS, left_seconds)


def read_zones(sentence: str) -> tuple[str, ...]:
    """Return the zones that Google's sentence names as having room."""
    found = [
        zone for form in _NAMED for part in form.findall(sentence) for zone in _ZONE.findall(part)
    ]
    return tuple(dict.fromkeys(found))


def read_quotas(sentence: str) -> tuple[str, ...]:
    """Return the names of the quotas that Google's sentence calls too small."""
    return tuple(dict.fromkeys(name for form in _QUOTAS for name in form.findall(sentence)))
