"""What agents take of a memory that they share; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Memory:
    """A GPU's memory or a machine's: what agents use of it, and what is left for more of them."""

    name: str
    used_bytes: int
    free_bytes: int
