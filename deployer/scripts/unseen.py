"""Why a script could not be checked."""

from __future__ import annotations


class Unseen(Exception):
    """It cannot be told which script runs, or what it says of its flags."""
