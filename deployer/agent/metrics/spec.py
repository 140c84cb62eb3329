"""Which of a script's numbers are metrics: the setting `metrics:` as agents get it; pure."""

import json
from dataclasses import dataclass
from typing import FrozenSet, Optional


@dataclass(frozen=True)
class Spec:
    """`names` is None for all.

    `step` is the name whose value orders rows, empty for their own order. `pattern` is a regular
    expression with named groups, empty for `name=value`.
    """

    names: Optional[FrozenSet[str]] = None
    step: str = ""
    pattern: str = ""

    def wants(self, name: str) -> bool:
        """Return True if values of this name are logged."""
        return self.names is None or name in self.names


def parse_spec(text: str) -> Spec:
    """Read what `deployer` has written into METRICS_VARIABLE."""
    told = json.loads(text)
    names = told.get("names")
    return Spec(
        names=None if names is None else frozenset(names),
        step=told.get("step", ""),
        pattern=told.get("pattern", ""),
    )


def add_metric(text: str, metric: str) -> str:
    """Return a spec for a sweep with this metric: the only name that counts if none is given.

    Without a metric all names count.
    """
    if not text or not metric:
        return text
    return json.dumps({"names": [metric], **json.loads(text)})
