"""The sweep's commands and the parser of a script that only this pod has, before any run."""

import importlib
import os
import signal
from typing import Any, Callable, Dict, Mapping, Optional

from .exit_codes import REFUSED, Ending
from .host.signals import WATCHED_SIGNALS, Signals
from .runs.run_output import SECRET_NAMES
from .settings import SCRIPT_CHECK_VARIABLE

SECONDS = 400.0  # a few imports of the script; each has its own limit
MODULE = "rehearsal.pod"  # of the zip file beside this package


def check_script(
    environment: Mapping[str, str], signals: Signals, say: Callable[[str], None]
) -> Optional[Ending]:
    """Return an ending if the script would refuse what the sweep hands out."""
    request = environment.get(SCRIPT_CHECK_VARIABLE)
    if not request:
        return None
    found = signals.find_out(lambda: _ask(request, environment), SECONDS)
    if signals.interrupted:
        return signals.asked_to
    found = {"not_checked": "the question broke off"} if found is None else found
    if found.get("refused"):
        return Ending(REFUSED, found["refused"])
    not_checked = found.get("not_checked")
    said = f"is not checked: {not_checked}" if not_checked else "takes the sweep's flags"
    say(f"the script {said}")
    return signals.asked_to


def _ask(request: str, environment: Mapping[str, str]) -> Dict[str, Any]:
    """Ask, in a child task: what starts there takes signals as usual, and gets no keys."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED_SIGNALS)
    shown = {name: value for name, value in environment.items() if not SECRET_NAMES.search(name)}
    shown.pop(SCRIPT_CHECK_VARIABLE)
    try:
        found: Dict[str, Any] = importlib.import_module(MODULE).check(request, shown)
    except Exception as error:
        return {"not_checked": f"{type(error).__name__}: {error} (in {os.getcwd()})"}
    return found
