"""Amounts as Kubernetes writes them: 500m, 2, 4Gi, 1e3; pure.

Source: kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity.
"""

from __future__ import annotations

import re

QUANTITY = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)(n|u|m|k|[KMGTPE]i|[MGTPE])?")
UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}
UNITS |= {unit: 10.0 ** (3 * power) for power, unit in enumerate("kMGTPE", 1)}
UNITS |= {f"{unit}i": 2.0 ** (10 * power) for power, unit in enumerate("KMGTPE", 1)}


def parse_quantity(text: object) -> float:
    """Return an amount as a number; raises ValueError."""
    found = QUANTITY.fullmatch(str(text).strip())
    if found is None:
        raise ValueError(f"'{text}' is not an amount")
    return float(found[1]) * UNITS[found[2] or ""]


def read_quantity(text: object) -> float:
    """Return an amount as a number; 0 of what is none."""
    try:
        return parse_quantity(text)
    except ValueError:
        return 0.0
