"""Says how far a build is: which program of how many, how long it has taken, and what is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TextIO

EVERY_SECONDS = 15.0


class Progress:
    """Counts packages as the compiler names them; `programs` are the packages that each needs.

    What an earlier program or build has left in the compiler's cache is not named again; it counts
    as done when the program that needs it is.
    """

    def __init__(self, programs: Mapping[str, frozenset[str]], out: TextIO = sys.stderr) -> None:
        self._programs = programs
        self._all = frozenset().union(*programs.values())
        self._done: set[str] = set()
        self._begun: list[str] = []
        self._out = out
        self._started = self._told = time.monotonic()

    def begin(self, program: str) -> None:
        """Go over to the next program."""
        if self._begun:
            self._done |= self._programs[self._begun[-1]]
        self._begun.append(program)
        self._tell()

    def count(self, package: str) -> None:
        """Note a package that the compiler has begun with."""
        self._done |= {package} & self._all
        if time.monotonic() - self._told >= EVERY_SECONDS:
            self._tell()

    def _tell(self) -> None:
        self._told = time.monotonic()
        place = f"{self._begun[-1]} ({len(self._begun)} of {len(self._programs)})"
        share = f"{len(self._done)} of {len(self._all)} packages"
        self._out.write(f"  {place}: {share}, {self._describe_time()}\n")
        self._out.flush()

    def _describe_time(self) -> str:
        taken = time.monotonic() - self._started
        if taken < EVERY_SECONDS or not self._done:
            return f"{taken:.0f} s so far"
        left = taken * (len(self._all) - len(self._done)) / len(self._done)
        return f"{taken:.0f} s so far, about {left:.0f} s left"
