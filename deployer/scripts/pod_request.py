"""What the first pods ask a script that only their image has; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.scripts.agent_commands import render_commands
from deployer.scripts.corners import list_corners, list_drawn
from deployer.scripts.rehearsal.pod import pack
from deployer.scripts.script_text import find_entry
from deployer.sweeps.program import ENVIRONMENT_MACRO

MOST_CORNERS = 1_000
MOST_CHARACTERS = 16_000  # of a variable: each Job of a sweep holds it, and each pod
NOWHERE = Path("/dev/null")  # its files are in the image


def build_pod_request(config: Mapping[str, Any], places: Mapping[str, str]) -> str:
    """Return the text of a variable with the commands of few configurations.

    `places` names the place of each parameter in the sweep file, that of all under an empty name.
    """
    words = [str(word) for word in config.get("command") or ()]
    if any(ENVIRONMENT_MACRO.search(word) for word in words):
        return pack({"not_checked": "its command takes words from the environment"})
    return _build(config, list_corners(config)[:MOST_CORNERS], places)


def _build(
    config: Mapping[str, Any], corners: Sequence[Mapping[str, Any]], places: Mapping[str, str]
) -> str:
    commands = render_commands(config, corners, {})
    script, _ = find_entry([*commands.before, *commands.after], NOWHERE)
    text = pack(
        {"script": script, "drawn": list_drawn(config), "places": places} | commands._asdict()
    )
    if len(text) <= MOST_CHARACTERS:
        return text
    if len(corners) == 1:
        return pack({"not_checked": "its command is too long to be sent along"})
    return _build(config, corners[: len(corners) // 2], places)
