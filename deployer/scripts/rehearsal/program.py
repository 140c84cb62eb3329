"""The rehearsal itself: furnishes the process, then runs the script as the interpreter would."""

import importlib.util
import json
import os
import runpy
import sys
import threading
import time
from typing import Any, Callable, Dict

from . import absl_flags, argparse_flags, click_flags, wandb_stand_in
from .answer import Answer
from .sources import find_caller, is_of_project

# What these do with a command line is their own: a parser of theirs says nothing of a script's.
OWN_WAYS = ("hydra",)
LOOK_SECONDS = 0.5
GRACE_SECONDS = 5.0  # whoever waits ends it first, and says so
LATE = "it logs before it has read its flags"
OTHER = "it parses other words than those of its command line"


def main(request_path: str) -> None:
    """Rehearse what the file asks for; never returns."""
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    threading.Thread(target=_end_in_time, args=(request["seconds"],), daemon=True).start()
    folder = os.getcwd()
    answer = Answer(request["answer"], request["command_lines"], folder)
    target, as_module = request["target"], request["module"]
    script_folder = os.path.dirname(os.path.realpath(target))
    sys.path.insert(0, folder if as_module else script_folder)
    sys.argv = [target, *request["command_lines"][0]]
    wandb_stand_in.install(request["config"], lambda: _end_late(answer), sys.path)
    argparse_flags.install(answer, folder)
    sys.meta_path.insert(0, _Watcher(answer, folder))
    sys.addaudithook(lambda event, given: _watch_programs(answer, event, given))
    sys.addaudithook(lambda event, given: _watch_files(answer, event, given))
    reason, more = _run(target, as_module, folder)
    answer.end(reason, **more)


def _end_in_time(seconds: float) -> None:
    """End the process after its time, and when nobody waits for it any more."""
    parent, end = os.getppid(), time.monotonic() + seconds + GRACE_SECONDS
    while time.monotonic() < end and os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def _run(target: str, as_module: bool, folder: str) -> Any:
    try:
        if as_module:
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(target, run_name="__main__")
    except ModuleNotFoundError as error:
        return "", {"missing": error.name or str(error)}
    except SystemExit as end:
        how = "exit code %s" % end.code if isinstance(end.code, int) else repr(end.code)
        how = "exit code 0" if end.code is None else how
        return "it ends with %s before it has read its flags" % how, {}
    except SyntaxError as error:
        if error.filename and os.path.realpath(error.filename) == os.path.realpath(target):
            return "", {"syntax": error.msg, "file": error.filename, "line": error.lineno or 0}
        return "SyntaxError: %s" % error, {}
    except BaseException as error:
        return "%s: %s" % (type(error).__name__, error), _find_place(error, folder)
    return "it ends before it has read its flags", {}


def _watch_programs(answer: Answer, event: str, given: Any) -> None:
    """End where the script starts itself again: that process would train."""
    if event == "os.exec":
        answer.end("it starts another program in its own place")
    elif event == "subprocess.Popen" and sys.argv[0] in [str(word) for word in given[1]]:
        answer.end("it starts itself again")


def _end_late(answer: Answer) -> None:
    answer.end(OTHER if answer.read_other_words else LATE)


def _watch_files(answer: Answer, event: str, given: Any) -> None:
    """Note what the script reads beside its modules: its flags may depend on it."""
    if event not in ("open", "os.listdir", "os.scandir") or not isinstance(given[0], str):
        return
    caller = sys._getframe(1).f_back
    if caller is not None and caller.f_code.co_filename.startswith("<frozen importlib"):
        return  # it looks for modules, which are known
    if event != "open" or str(given[1] or "r")[0] == "r":
        answer.note_opened(given[0])


def _find_place(error: BaseException, folder: str) -> Dict[str, Any]:
    """Return the last line of the project on the way to an error."""
    found: Dict[str, Any] = {}
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if is_of_project(path, folder):
            found = {"file": os.path.realpath(path), "line": trace.tb_lineno}
        trace = trace.tb_next
    return found


class _Watcher:
    """Has the modules of parsers watched as soon as they are imported."""

    def __init__(self, answer: Answer, folder: str) -> None:
        self._answer, self._folder = answer, folder
        self._watch: Dict[str, Callable[..., None]] = dict.fromkeys(OWN_WAYS, self._refuse)
        self._watch.update(dict.fromkeys(click_flags.MODULES, click_flags.watch))
        self._watch.update(dict.fromkeys(absl_flags.MODULES, absl_flags.watch))

    def _refuse(self, module: Any, answer: Answer, folder: str) -> None:
        """End where the project's own code reads its configuration in another way."""
        if find_caller(folder, "")[0].startswith(os.path.realpath(folder) + os.sep):
            answer.end("%s reads its configuration" % module.__name__)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module as without us, and have it watched once it is there."""
        watch = self._watch.pop(name, None)
        if watch is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            watch(module, self._answer, self._folder)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
