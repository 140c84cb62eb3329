"""The check of a sweep against code that only a pod has, in few words for its supervisor."""

import base64
import json
import os
import zlib
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from .process import Rehearsal, Silent, name_complaint, rehearse
from .project_modules import find_module_file, list_project_modules, reads_flags
from .wording import explain_end, is_sure, word

SECONDS = 60.0  # of one question; a refusal is asked about once more
NO_PARSER = "it reads no flags with argparse, click, typer or absl"


def check(text: str, environment: Mapping[str, str]) -> Dict[str, str]:
    """Return `refused` with the line and the remedy, or `not_checked` with the reason, or nothing.

    The text is what `pack` returned elsewhere; the environment has no keys.
    """
    asked = json.loads(zlib.decompress(base64.b64decode(text)))
    if asked.get("not_checked"):
        return {"not_checked": asked["not_checked"]}
    folder = os.path.realpath(os.getcwd())
    try:
        if not _may_read_flags(asked, folder):
            return {"not_checked": NO_PARSER}
        answer = _ask(asked, range(len(asked["lines"])), folder, environment)
        if "parser" not in answer:
            return {"not_checked": explain_end(answer, asked["interpreter"][0], folder)}
        for index, said in _list_sure(asked, answer):
            # By itself in a process of its own: a parser may have kept something of those before.
            alone = _ask(asked, [index], folder, environment)
            if name_complaint(said) in [name_complaint(one) for _, one in _list_sure_of(alone)]:
                return {"refused": _word(asked, said, answer["flags"], folder)}
    except Silent as silent:
        return {"not_checked": str(silent)}
    return {}


def pack(asked: Mapping[str, Any]) -> str:
    """Return what `check` needs in a form for an environment variable."""
    packed = zlib.compress(json.dumps(asked, separators=(",", ":")).encode(), 9)
    return base64.b64encode(packed).decode()


def _may_read_flags(asked: Mapping[str, Any], folder: str) -> bool:
    """Tell whether a parser may end the script: else it would do its work."""
    base, target = Path(folder), asked["target"]
    if asked["module"]:
        entry = find_module_file(target, base)
        if entry is None:
            raise Silent("the module %s is not in %s" % (target, folder))
        return reads_flags(list_project_modules(entry, (base,)))
    entry = base / target
    if not entry.is_file():
        raise Silent("there is no file %s in %s" % (target, folder))
    return reads_flags(list_project_modules(entry, (entry.resolve().parent, base)))


def _ask(
    asked: Mapping[str, Any], chosen: Sequence[int], folder: str, environment: Mapping[str, str]
) -> Dict[str, Any]:
    lines: List[List[str]] = [asked["lines"][index] for index in chosen]
    rehearsal = Rehearsal(
        asked["interpreter"],
        asked["target"],
        asked["module"],
        asked["variables"],
        lines,
        asked["corners"][chosen[0]],
        SECONDS,
    )
    return rehearse(rehearsal, folder, environment)


def _list_sure(
    asked: Mapping[str, Any], answer: Mapping[str, Any]
) -> Iterator[Tuple[int, Mapping[str, Any]]]:
    """Yield each kind of complaint about which there is no doubt, with the first line of it."""
    seen = set()
    for index, said in _list_sure_of(answer):
        name = said["flag"].lstrip("-")
        value = asked["corners"][index].get(name)
        if name_complaint(said) not in seen and is_sure(said, value, name in asked["drawn"], False):
            seen.add(name_complaint(said))
            yield index, said


def _list_sure_of(answer: Mapping[str, Any]) -> Iterator[Tuple[int, Mapping[str, Any]]]:
    problems = answer["problems"] if answer.get("sure") else []
    return ((index, one) for index, said in enumerate(problems) for one in said)


def _word(
    asked: Mapping[str, Any], said: Mapping[str, Any], flags: Sequence[Any], folder: str
) -> str:
    script = "-m %s" % asked["target"] if asked["module"] else asked["target"]
    message, hint = word(said, script, flags, folder)
    places = asked["places"]
    place = places.get(said["flag"].lstrip("-")) or places[""]
    return " ".join(("%s: %s (%s)" % (place, message, hint)).split())
