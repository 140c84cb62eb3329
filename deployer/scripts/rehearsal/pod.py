"""The check of a sweep against code that only a pod has, in few words for its supervisor."""

import base64
import json
import os
import zlib
from typing import Any, Dict, Mapping

from .process import Commands, Silent, gets_no_words, rehearse
from .verdict import RAISED, Case, judge


def check(text: str, environment: Mapping[str, str]) -> Dict[str, str]:
    """Return `refused` with the line and the hint, or `not_checked` with the reason, or nothing.

    The text is what `pack` returned elsewhere; the environment has no keys.
    """
    asked = json.loads(zlib.decompress(base64.b64decode(text)))
    if asked.get("not_checked"):
        return {"not_checked": asked["not_checked"]}
    folder, places = os.path.realpath(os.getcwd()), asked["places"]
    commands = Commands(asked["before"], asked["blocks"], asked["after"], asked["configs"])
    case = Case(asked["script"], folder, asked["configs"], asked["drawn"], False)
    if gets_no_words(commands):
        return {}
    try:
        verdict = judge(rehearse(commands, folder, environment), case)
    except Silent as silent:
        return {"not_checked": str(silent)}
    for one in verdict.complaints:
        if one.sure:
            place = places.get(one.name.partition(".")[0]) or places[""]
            return {"refused": "%s: %s (%s)" % (place, one.message, one.hint)}
    for one in verdict.complaints:
        if one.hint.endswith(RAISED):
            return {"not_checked": one.message}
    return {"not_checked": verdict.not_checked} if verdict.not_checked else {}


def pack(asked: Mapping[str, Any]) -> str:
    """Return what `check` needs in a form for an environment variable."""
    packed = zlib.compress(json.dumps(asked, separators=(",", ":")).encode(), 9)
    return base64.b64encode(packed).decode()
