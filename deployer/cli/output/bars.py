"""A small bar beside a value, in the colours of good and bad."""

from __future__ import annotations

from deployer.cli.output.render import Styled

WIDTH = 8  # characters
FULL, PARTS = "\N{FULL BLOCK}", " ▏▎▍▌▋▊▉"
# From which part of the way to the best on a value has a colour.
COLOURS = ((0.75, "green"), (0.4, "yellow"), (0.0, "red"))
STATES = {
    "finished": "green",
    "running": "cyan",
    "failed": "red",
    "crashed": "red",
    "killed": "yellow",
}


def build_bar(rate: float | None, style: str | None = None) -> Styled:
    """Return a bar for a value between 0 (the worst, nearly empty) and 1 (the best, full)."""
    if rate is None:
        return Styled("")
    eighths = max(1, round(rate * WIDTH * len(PARTS)))
    whole, rest = divmod(eighths, len(PARTS))
    colour = next(name for least, name in COLOURS if rate >= least)
    return Styled(FULL * whole + PARTS[rest].strip(), style or colour)


def build_state(state: str) -> Styled:
    """Return a run's state in its colour."""
    return Styled(state, STATES.get(state, ""))
