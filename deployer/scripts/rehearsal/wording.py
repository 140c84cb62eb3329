"""What a parser's complaint means for whoever wrote the sweep, in words; pure."""

import ast
import difflib
import os
import re
from typing import Any, Iterable, List, Mapping, Sequence, Tuple

NUMBERS = ("int", "float")
BUILT_IN = (*NUMBERS, "bool", "str")
GPU = re.compile(r"\b(cuda|gpus?|hip|mps|device|accelerator)\b")
# Of these a script says the same wherever it runs with these packages.
UNCLEAR = "unclear"
Said = Mapping[str, Any]


def is_sure(said: Said, value: Any, drawn: bool, elsewhere: bool) -> bool:
    """Tell whether the script would refuse the value where it runs, too.

    A server may hand out 1.0 as 1, no GPU is seen here, and files may be there that are not
    here: only elsewhere do types of the script's own see them. And a range's very end, which
    such a type may refuse, is next to never drawn.
    """
    kind = said["kind"]
    if kind in ("type", "choice") and GPU.search(("%s %s" % (said["flag"], value)).lower()):
        return False
    if kind == "type":
        whole = isinstance(value, float) and value.is_integer() and said.get("whole", True)
        own = said["type"] not in BUILT_IN
        return not whole and not (own and (elsewhere or drawn))
    return kind != UNCLEAR and (kind != "refused" or not elsewhere)


def word(said: Said, script: str, flags: Sequence[Said], folder: str) -> Tuple[str, str]:
    """Return what is wrong, and what to do about it."""
    kind, flag, value = said["kind"], said["flag"], said.get("value", "")
    where = show_place(said, script, folder)
    if kind == UNCLEAR:
        return "%s may not take its command: %s" % (script, said["said"]), "look at its parser"
    if kind == "unknown":
        return "%s has no flag %s" % (script, flag), suggest(flag, script, flags, folder)
    if kind == "ambiguous":
        near = ", ".join(said["near"])
        return "%s: %s could be %s" % (script, flag, near), "write the flag's whole name"
    if kind == "missing":
        hint = "add %s: {value: …}, or write the flag in command" % flag.lstrip("-")
        hint = hint if flag.startswith("-") else "write it in command"
        return "%s: %s is required, and the sweep does not give it" % (where, flag), hint
    if kind == "no_value":
        hint = "command: [..., '${args_no_boolean_flags}'] instead of '${args}'"
        if any(flag in one["names"] and one["default"] is True for one in flags):
            hint = "have it take a value: it is on by default, and no agent writes --no-…"
        return "%s: %s takes no value, and gets %s=%s" % (where, flag, flag, value), hint
    if kind in ("type", "choice"):
        return _word_value(said, where)
    hint = "python %s --help says what it takes" % script
    return "%s refuses its command: %s" % (script, said["said"].strip().splitlines()[0]), hint


def _word_value(said: Said, where: str) -> Tuple[str, str]:
    flag, value, kind = said["flag"], said.get("value", ""), said["type"]
    refused = "%s: %s does not take %r" % (where, flag, value)
    if said["kind"] == "choice":
        return refused, list_near(value, [str(choice) for choice in said["choices"]])
    if said.get("words"):
        return refused, said["words"]
    if not kind:
        return refused, "write values that it takes"
    return "%s: %s takes %s, not %r" % (where, flag, kind, value), _hint_at_type(kind, flag, value)


def suggest(flag: str, script: str, flags: Sequence[Said], folder: str) -> str:
    """Return a hint for a flag that the script does not have."""
    names = [name for one in flags for name in one["names"] if name.startswith("-")]
    near = find_near(flag, names)
    if near == flag:
        return "it is one of a subcommand: write that before '${args}' in command"
    if near:
        one = next(one for one in flags if near in one["names"])
        return "did you mean %s? (%s)" % (near, show_place(one, script, folder))
    return list_near(flag, names) if names else "it has no flags at all"


def find_near(flag: str, names: Sequence[str]) -> str:
    """Return the name that was probably meant: - and _ are one, and so are - and --."""
    plain = {name.strip("-").replace("_", "-"): name for name in reversed(names)}
    found = difflib.get_close_matches(flag.strip("-").replace("_", "-"), list(plain), n=1)
    return plain[found[0]] if found else ""


def list_near(text: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest word that is known, else all of them."""
    words: List[str] = list(known)
    found = difflib.get_close_matches(text, words, n=1)
    return "did you mean %s?" % found[0] if found else "known: %s" % ", ".join(words)


def show_place(said: Said, script: str, folder: str) -> str:
    """Return the file and line where a flag is defined, else the script."""
    if not said.get("file"):
        return script
    return "%s:%s" % (show_file(said["file"], folder), said["line"])


def show_file(path: str, folder: str) -> str:
    """Return a path as a person in the folder names it."""
    inside = os.path.join(folder, "")
    return path[len(inside) :] if path.startswith(inside) else path


def explain_end(answer: Said, interpreter: str, folder: str) -> str:
    """Return why a script did not come to its parser."""
    if "syntax" in answer:
        return "%s: %s" % (show_file(answer["file"], folder), answer["syntax"])
    if answer.get("missing"):
        return "%s here has no module %s" % (interpreter, answer["missing"])
    place = answer.get("file")
    where = "%s:%s: " % (show_file(place, folder), answer["line"]) if place else ""
    return where + str(answer["ended"])


def _hint_at_type(kind: str, flag: str, value: str) -> str:
    if kind == "int" and _is_number(value):
        return "list whole numbers, or write distribution: int_uniform"
    if value == "None":
        return "leave the parameter out, or have the script read None"
    if kind in NUMBERS and value.startswith("{"):
        return "write each of its parameters by its own name, such as %s.NAME" % flag.lstrip("-")
    if kind in NUMBERS and value.startswith("["):
        return "an agent writes a list as one word: have the script take it apart"
    if kind in NUMBERS:
        return "write numbers as its values"
    return "write values that it takes"


def _is_number(text: str) -> bool:
    try:
        return isinstance(ast.literal_eval(text), (int, float))
    except (ValueError, SyntaxError):
        return False
