"""What a rehearsal's answer means for a sweep: the parser's words, with hints; pure."""

import difflib
import json
import os
import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .prologue.deployer_session import tidy

GPU = re.compile(r"\b(cuda|gpus?|hip|mps|device|accelerator)\b")
BUILT_IN = ("", "int", "float", "str", "bool", "Path")
TRACEBACK = "Traceback (most recent call last)"
FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)
LAST_LINE = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\w*)(?:: (.*))?$"
)
MISSING = re.compile(r"No module named '([^']+)'")
CPU_SIGNAL = -24
COMMAND_NOT_FOUND = (126, 127)
MOST_NAMES = 8
RAISED = "the script raised this error in the check; --no-check skips it"
# Of keys, which no trial start gets.
KEY = re.compile(r"[A-Z_](KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)\b")
# What other packages, or another Python, do not raise.
OF_PACKAGES = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError")


class Complaint(NamedTuple):
    """One problem: `name` is its parameter, or `program` or `command` with a dot before it."""

    name: str
    message: str
    hint: str
    sure: bool
    module: str = ""  # one that is missing: the caller has the hint


class Verdict(NamedTuple):
    """All complaints, and why a script was not checked, else empty."""

    complaints: Sequence[Complaint]
    not_checked: str


class Rehearsal(NamedTuple):
    """What was rehearsed: `script` as it is shown, `drawn` are parameters that are ranges.

    `elsewhere` is True where runs have other packages or files than the rehearsal.
    """

    script: str
    folder: str
    configs: Sequence[Mapping[str, Any]]
    drawn: Sequence[str]
    elsewhere: bool


def judge(answer: Mapping[str, Any], case: Rehearsal) -> Verdict:
    """Return what is wrong or doubtful, and why nothing can be said."""
    if "complaints" not in answer:
        return _judge_end(answer["end"], case)
    found = [_word(one, answer, case) for one in answer["complaints"]]
    end = answer["end"]
    refused = answer.get("usage") and end["status"]
    if answer.get("sign") or (answer.get("soft") == "parsed" and not refused):
        found += [_word_ignored(name, answer, case) for name in answer.get("ignored") or ()]
        if answer.get("asked", answer["lines"]) < answer["lines"]:
            said = "only %d of %d configurations were tried: its parser is slow"
            message = said % (answer["asked"], answer["lines"])
            found.append(Complaint("", message, "check the remaining values yourself", False))
        return Verdict(found, "")
    if refused and found:
        return Verdict(found, "")
    if answer.get("usage") and not end["status"]:
        return Verdict(found, "" if found else "it ends before it has parsed its flags")
    verdict = _judge_end(end, case)
    known = [one.message for one in found]
    found += [one for one in verdict.complaints if one.message not in known]
    return Verdict(found, verdict.not_checked)


def _judge_end(end: Mapping[str, Any], case: Rehearsal) -> Verdict:
    """Judge a script that ended before a parser had accepted its command line."""
    status, text = end["status"], end["text"]
    error, place = read_error(text, case.folder)
    missing = MISSING.search(error)
    if error.startswith("ModuleNotFoundError") and missing and not case.elsewhere:
        message = "%sthe script's Python has no module %s" % (place, missing.group(1))
        return Verdict([Complaint(".program", message, "", True, missing.group(1))], "")
    if error.startswith(("SyntaxError", "IndentationError", "TabError")) and not case.elsewhere:
        message = place + error.partition(": ")[2]
        return Verdict([Complaint(".program", message, "correct the script", True)], "")
    usage = re.search(r"^ *(usage|error):", text, re.IGNORECASE | re.MULTILINE)
    if end.get("usage") or (status in (1, 2) and usage and TRACEBACK not in text):
        said = (end.get("usage") or "").strip() or tidy(text)
        hint = "python %s --help lists its flags" % case.script
        return Verdict([Complaint("", "%s: %s" % (case.script, said), hint, True)], "")
    lines = [line for line in text.splitlines() if line.strip()]
    if status in COMMAND_NOT_FOUND and lines and not case.elsewhere:
        hint = "install it, or name another program in command"
        return Verdict([Complaint(".command", lines[-1].strip(), hint, True)], "")
    if status == CPU_SIGNAL:
        return Verdict([], "it parses no flags and logs nothing within 20 s of CPU")
    if error and not _is_of_here(error, case):
        return Verdict([Complaint(".program", place + error, RAISED, False)], "")
    said = "it ends with exit code %s before it has parsed its flags" % status
    return Verdict([], place + error if error else said)


def _is_of_here(error: str, case: Rehearsal) -> bool:
    """Return True if an error may be specific to this machine: no GPU, no key, another Python."""
    lacks = GPU.search(error.lower()) or KEY.search(error)
    return bool(lacks) or (case.elsewhere and error.startswith(OF_PACKAGES))


def read_error(text: str, folder: str) -> Tuple[str, str]:
    """Return the exception of an output as `Type: message`, and its last line in the project."""
    parts = text.split(TRACEBACK)
    own = [part for part in parts[1:] if _list_places(part, folder)]
    part = (own or parts)[-1]
    found = ""
    for line in part.splitlines():
        found = line if LAST_LINE.fullmatch(line) else found
    places = _list_places(part, folder)
    if not found:
        return "", ""
    found = re.sub(r"^(\w*KeyError: )(['\"])(.*)\2$", r"\1\3", found)
    return found, "%s:%s: " % places[-1] if places else ""


def _list_places(text: str, folder: str) -> List[Tuple[str, str]]:
    inside = os.path.realpath(folder) + os.sep
    found = [(os.path.realpath(os.path.join(folder, p)), line) for p, line in FRAME.findall(text)]
    return [
        (path[len(inside) :], line)
        for path, line in found
        if path.startswith(inside) and "site-packages" not in path and "<" not in path
    ]


def _word(one: Mapping[str, Any], answer: Mapping[str, Any], case: Rehearsal) -> Complaint:
    name, said, end = one["name"], one["said"].strip(), one["end"]
    value = case.configs[one["index"]].get(name)
    flag = find_flag(name, answer["flags"])
    place = find_place(name, answer["files"], case.folder) if flag else ""
    message = "%s: %s" % (place or case.script, " ".join(said.split()))
    hint = _find_hint(name, value, said, flag, answer, case)
    sure = bool(end["status"] and end.get("usage")) and not end["late"]
    if not end["status"]:
        message += ", but the script goes on"
    elif not sure:
        error, line = read_error(end["text"], case.folder)
        message = (line or case.script + ": ") + error if error else message
        hint = "%s; %s" % (hint, RAISED) if error and not _is_of_here(error, case) else hint
    sure = sure and _is_sure(name, value, said, flag, answer, case)
    return Complaint(name, message, hint, sure)


def _is_sure(
    name: str,
    value: Any,
    said: str,
    flag: Optional[Mapping[str, Any]],
    answer: Mapping[str, Any],
    case: Rehearsal,
) -> bool:
    """Return True if the script would refuse this where it runs, too.

    No GPU is visible here; a server may hand out 1.0 as 1; the very end of a range is hardly ever
    drawn; other packages and files may be where the runs are.
    """
    if flag is None:
        return not (case.elsewhere and answer["foreign"])
    if GPU.search(("%s %s" % (name, value)).lower()):
        return False
    if isinstance(value, float) and "int" in said and value.is_integer():
        return False
    if isinstance(value, float) and "int" not in said and name in case.drawn:
        return False
    return not case.elsewhere or (flag["type"] in BUILT_IN and not answer["foreign"])


def _word_ignored(name: str, answer: Mapping[str, Any], case: Rehearsal) -> Complaint:
    message = "--%s is ignored by %s: its parser does not know it" % (name, case.script)
    return Complaint(name, message, _suggest(name, answer, case), False)


def find_flag(name: str, flags: Sequence[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
    """Return the description of a parameter's flag, also by a part of its name as argparse does."""
    for flag in flags:
        if "--" + name in flag["names"]:
            return dict(flag)
    return None


def find_place(name: str, files: Sequence[str], folder: str) -> str:
    """Return the file and line of the project that defines a flag, as far as its text shows."""
    inside = os.path.realpath(folder) + os.sep
    quoted = re.compile(r"""["']-{0,2}%s["'/=]""" % re.escape(name))
    field = re.compile(r"^\s*(def .*\b)?%s *:|[(,] *%s *[:=]" % ((re.escape(name),) * 2))
    for pattern in (quoted, field):
        for path in [one for one in files if one.endswith(".py") and one.startswith(inside)]:
            for number, line in _read_lines(path):
                if pattern.search(line):
                    return "%s:%d" % (path[len(inside) :], number)
    return ""


def _read_lines(path: str) -> Iterator[Tuple[int, str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from enumerate(file, 1)
    except OSError:
        return


def _find_hint(
    name: str,
    value: Any,
    said: str,
    flag: Optional[Mapping[str, Any]],
    answer: Mapping[str, Any],
    case: Rehearsal,
) -> str:
    flags = answer["flags"]
    if not name:
        missing = re.search(r"(?:required|[Mm]issing)\D*?(--[\w.-]+)", said)
        if missing:
            flag_name = missing.group(1)
            return "add %s: {value: …}, or write the flag in command" % flag_name.lstrip("-")
        if answer["subcommands"]:
            return "command: [..., %s, '${args}']" % answer["subcommands"][0]
    if name and flag is None and (flags or answer["subcommands"]):
        return _suggest(name, answer, case)
    if flag is not None and not flag["takes_value"]:
        if flag["paired"] and flag["default"] is True:
            return "have it take a value: it is on by default, and agents never pass --no-…"
        return "command: [..., '${args_no_boolean_flags}'] instead of '${args}'"
    if flag is not None:
        return _hint_at_value(name, value, said, flag)
    return "python %s --help lists its flags" % case.script


def _suggest(name: str, answer: Mapping[str, Any], case: Rehearsal) -> str:
    flags = answer["flags"]
    known = [one for flag in flags for one in flag["names"]]
    plain = {one.strip("-").replace("_", "-"): one for one in reversed(known)}
    near = difflib.get_close_matches(name.replace("_", "-"), list(plain), n=1)
    if near:
        found = plain[near[0]]
        place = find_place(found.lstrip("-"), answer["files"], case.folder)
        return "did you mean %s?%s" % (found, " (%s)" % place if place else "")
    if answer["subcommands"]:
        return (
            "perhaps it belongs to a subcommand: command: [..., %s, '${args}']"
            % answer["subcommands"][0]
        )
    return "known: %s" % ", ".join(known[:MOST_NAMES] + ["…"][: len(known) > MOST_NAMES])


def _hint_at_value(name: str, value: Any, said: str, flag: Mapping[str, Any]) -> str:
    kind, text = flag["type"], str(value)
    if value is None or text == "None":
        inner = kind + "(text)" if kind in ("int", "float") else "text"
        return "in the script: type=lambda text: None if text == 'None' else %s" % inner
    if flag["many"] and (isinstance(value, list) or " " in text):
        words = " ".join(map(str, value)) if isinstance(value, list) else text
        return (
            "an agent passes a value as one argument: use values such as %r and command: "
            "['${env}', bash, -c, 'exec python $0 $*', '${program}', '${args_no_equals}']" % words
        )
    if isinstance(value, list):
        return (
            "did you mean values: %s? An agent passes a list as one argument, which the script can "
            "read with json.loads" % json.dumps(value)
        )
    if isinstance(value, dict):
        return "write each parameter by its own name, such as %s.NAME" % name
    if flag["choices"] and kind in ("", "str") and text not in flag["choices"]:
        kinds = {type(one).__name__ for one in flag["choices"]}
        if kinds <= {"int", "float"}:
            return "in the script: type=%s, as its choices are" % min(kinds)
        if "str" not in kinds or text in map(str, flag["choices"]):
            return "in the script: write its choices as text, such as %r" % text
    if flag["choices"]:
        near = difflib.get_close_matches(text, [str(one) for one in flag["choices"]], n=1)
        known = ", ".join(str(one) for one in flag["choices"][:MOST_NAMES])
        return "did you mean %s?" % near[0] if near else "known: %s" % known
    if isinstance(value, float) and "int" in said:
        return "list whole numbers, or write distribution: int_uniform"
    return (
        "write numbers as its values"
        if kind in ("int", "float")
        else "write values that it accepts"
    )
