"""What the first pods ask a script that only their image has; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deployer.scripts.agent_commands import render_commands
from deployer.scripts.complaints import list_drawn
from deployer.scripts.corners import list_corners
from deployer.scripts.invocation import see_elsewhere
from deployer.scripts.rehearsal.pod import pack
from deployer.scripts.unseen import Unseen
from deployer.sweeps.program import ENVIRONMENT_MACRO

MOST_CORNERS = 1_000
MOST_CHARACTERS = 16_000  # of a variable: each Job of a sweep holds it, and each pod


def build_pod_request(config: Mapping[str, Any], places: Mapping[str, str]) -> str:
    """Return the text of a variable with the commands of few configurations.

    `places` names the place of each parameter in the sweep file, that of all under an empty name.
    """
    corners = list_corners(config)[:MOST_CORNERS]
    try:
        return _build(config, corners, places)
    except Unseen as unseen:
        return pack({"not_checked": str(unseen)})


def _build(
    config: Mapping[str, Any], corners: Sequence[Mapping[str, Any]], places: Mapping[str, str]
) -> str:
    words = [str(word) for word in config.get("command") or ()]
    if any(ENVIRONMENT_MACRO.search(word) for word in words):
        raise Unseen("its command takes words from the environment")
    if "${args_json_file}" in words:
        raise Unseen("its command gets its parameters in a file")
    found = [
        see_elsewhere(one) for one in render_commands(config, corners, {}, [""] * len(corners))
    ]
    first = found[0]
    if any(replace(one, arguments=first.arguments) != first for one in found):
        raise Unseen("its command starts another script for each configuration")
    text = pack(
        {
            "interpreter": first.interpreter,
            "target": first.target,
            "module": first.module,
            "variables": dict(first.variables),
            "lines": [one.arguments for one in found],
            "corners": corners,
            "drawn": list_drawn(config),
            "places": places,
        }
    )
    if len(text) <= MOST_CHARACTERS:
        return text
    if len(corners) == 1:
        raise Unseen("its command is too long to be sent along")
    return _build(config, corners[: len(corners) // 2], places)
