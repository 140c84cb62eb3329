"""One rehearsed process: it forks at its first parse, and its children go on as the script.

The process itself stays at the fork as the driver. One child explores: it goes on with the first
configuration, and its parsers are asked about all others in a child of its own. Each complaint
counts only if a trial, a child that goes on with the configuration complained about, ends with it.
"""

import contextlib
import json
import os
import re
import resource
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

Words = List[str]
Call = Callable[[Optional[Words]], Any]
CPU_SECONDS = 20
CHILD_SECONDS = 30.0
ASKED_SECONDS = 10.0  # for slow parsers: what is not asked by then is reported
LATE_SECONDS = 5.0  # for a later parse, after one that left words over or after wandb.init
MOST_TRIALS = 12
PYTHON = re.compile(r"(.*/)?(python|pypy)[0-9.]*")
# Code that may parse later.
PARSES = re.compile(
    r"\.parse_\w*args|into_dataclasses|\bCLI\(|\.cli\(|\bcli\(|\bapp\(|Fire\(|FLAGS\(|app\.run\("
    r"|typer\.run|docopt\(|compose\(|from_cli|sys\.argv"
)


class Accepted(BaseException):
    """The script is about to start its work."""


class Session:
    """The state of one process; `words` are its own command line without the script."""

    def __init__(self, folder: str) -> None:
        with open(os.path.join(folder, "request.json"), encoding="utf-8") as file:
            request = json.load(file)
        self._scratch, self.describing = folder, request["describing"]
        self._configs: List[Dict[str, Any]] = request["configs"]
        self.config: Dict[str, Any] = dict(self._configs[0])
        self.defaults: Dict[str, Any] = {}  # of wandb.init(config=…)
        self._project = os.path.realpath(os.getcwd())
        self._own: Dict[str, bool] = {}
        prefix = os.path.realpath(sys.prefix) + os.sep
        stdlib = os.path.realpath(os.path.dirname(os.__file__)) + os.sep
        inside = prefix.startswith(self._project + os.sep)
        self._installed = (stdlib, prefix) if inside else (stdlib,)
        self._words = sys.argv[1:]
        self._blocks: List[Words] = request["blocks"]
        self._stages: List[List[Words]] = [self._list_lines()]
        self._mode, self._number = "start", 0
        self._path = os.path.join(folder, "start")  # a child has a file of its own
        self._record: Dict[str, Any] = {"suspects": [], "flags": [], "subcommands": []}
        self._left: Optional[Set[str]] = None
        self._seen: Set[Tuple[str, int]] = set()
        self._describe_last: Callable[[], Any] = list
        self.composed: Any = None  # by hydra
        self.style = ""
        self.judging, self.inside, self.usage, self.foreign = False, False, "", False

    def _list_lines(self) -> List[Words]:
        """Return this process's command line for each configuration."""
        for split in (False, True):  # a shell may take words apart
            blocks = [_split(one) if split else one for one in self._blocks]
            first = blocks[0]
            for at in range(len(self._words) - len(first), -1, -1):
                if self._words[at : at + len(first)] == first:
                    end = self._words[at + len(first) :]
                    return [self._words[:at] + block + end for block in blocks]
        return [self._words]

    def is_script(self) -> bool:
        """Return True if this process runs the script, not a launcher or another program."""
        file = getattr(sys.modules.get("__main__"), "__file__", None)
        if not file:
            return False
        if self.is_of_project(file):
            return True
        return not any(
            word in ("-m", "--module")
            or PYTHON.fullmatch(word)
            or (word.endswith(".py") and os.path.isfile(word))
            for word in self._words
        )

    def is_of_project(self, path: str) -> bool:
        """Return True for a file of the project's folder that is not an installed one."""
        if path not in self._own:
            real = os.path.realpath(path)
            self._own[path] = (
                real.startswith(self._project + os.sep)
                and "site-packages" not in real
                and not real.startswith(self._installed)
            )
        return self._own[path]

    # What the hooks of parsers call.

    def find_lines(self, words: Sequence[Any]) -> Optional[List[Words]]:
        """Return all command lines in the form in which a parser gets the first, if it does."""
        if self.inside or not self.is_script():
            return None
        for stage in self._stages:
            found = _match(list(words), stage)
            if found is not None:
                return found
        return None

    def parse(self, words: Sequence[Any], call: Call, describe: Callable[[], Any]) -> Any:
        """Let a parser parse its words as the script wants it, having asked it about all others.

        `call` parses given words, with None its own, and returns (result, words left over).
        """
        lines = self.find_lines(words)
        if lines is None:
            return call(None)[0]
        self._note_place()
        self._describe_last = describe
        if self.describing:
            return self._describe(call)
        forked = self._enter()
        own: Optional[Words] = None
        if self._mode == "trial" and forked:
            own = self._stages[-1][0]
            own = (_match(list(words), [self._words, own]) or [own])[-1]
        if self._mode == "explore":
            self._ask(lines, call)
        try:
            result, left = self._call(call, own)
        finally:
            self._add_flags()
        self.usage = ""
        covered = [word for word in self._stages[0][0] if word not in words]
        if own is not None or self._mode != "explore":
            self._stages.append([left])
        self.leave_over([*covered, *left] if own is None else left)
        return result

    def _call(self, call: Call, words: Optional[Words]) -> Any:
        self.inside, self.usage = True, ""
        try:
            return call(words)
        except Accepted:
            return None, []
        except BaseException as error:
            text = self.usage or find_usage(error)
            if text or (isinstance(error, SystemExit) and error.code not in (None, 0)):
                self._record["usage"] = text or "\n"
                self._save()
            raise
        finally:
            self.inside = False

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """Let a package parse flags of its own."""
        self.inside = True
        try:
            yield
        finally:
            self.inside = False

    def leave_over(self, left: Sequence[str]) -> None:
        """Settle a parse that took all flags of the sweep; wait for the next one otherwise."""
        names = {name for name in self._configs[0] if _find(name, list(left))}
        self._left = names if self._left is None else self._left & names
        self._record["ignored"] = sorted(self._left)
        if not self._left:
            self.settle("parsed")
        self._wait("parsed")

    def accept(self) -> None:
        """Settle where a library is about to start the script's function."""
        if self.judging:
            raise Accepted
        self.settle("parsed")

    def begin_run(self) -> None:
        """Go on after wandb.init: a parse may follow, else the script takes no flags."""
        if self._mode == "start" and not self.is_script():
            return
        self._record["defaults"] = self.defaults
        if not self.describing:
            self._enter()
        if self._left is None:
            self._wait("init")

    def _wait(self, sign: str) -> None:
        if self._goes_on():
            return
        self._record["soft"] = sign
        self._save()
        if not self._may_parse_again():
            self.settle(sign)
        self._settle_later(sign)

    def _settle_later(self, sign: str) -> None:
        timer = threading.Timer(LATE_SECONDS, self._settle_after_imports, (sign,))
        timer.daemon = True
        timer.start()

    def _settle_after_imports(self, sign: str) -> None:
        """Wait for as long as the script imports: torch alone may take more than these seconds."""
        if _is_importing():
            self._settle_later(sign)
        else:
            self.settle(sign)

    def settle(self, sign: str) -> None:
        """End this child: the script has come to its work. Nothing behind it runs."""
        if self._goes_on():
            return
        self._record["sign"] = sign
        self._add_flags()
        self._save()
        if self.describing:
            os.replace(self._path, os.path.join(self._scratch, "answer.json"))
        os._exit(0)

    def _goes_on(self) -> bool:
        return self.judging or (self._mode == "start" and not self.describing)

    # The driver and its children.

    def _enter(self) -> bool:
        """Fork at the first parse; return True in a child, which goes on as the script."""
        if self._mode != "start":
            return False
        try:
            os.close(os.open(os.path.join(self._scratch, "driver"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            while True:  # another process of the same command is asked; see `end_with`
                time.sleep(1)
        explored = self._run_child("explore", 0, [])
        if explored is None:
            return True
        complaints = []
        for suspect in explored["suspects"][:MOST_TRIALS]:
            if (suspect["index"], suspect["without"]) == (0, []):
                end = explored
            else:
                tried = self._run_child("trial", suspect["index"], suspect["without"])
                if tried is None:
                    return True
                end = tried
            if end.get("usage") or end["end"]["status"] or end["end"]["late"]:
                complaints.append({**suspect, "end": end["end"], "sign": end.get("sign", "")})
        explored.update(complaints=complaints, lines=len(self._stages[0]))
        _write(os.path.join(self._scratch, "answer.json"), explored)
        os._exit(0)

    def _run_child(self, mode: str, index: int, without: Words) -> Optional[Dict[str, Any]]:
        """Fork a child, and return what it recorded and how it ended; None in the child."""
        self._number += 1
        path = os.path.join(self._scratch, "child-%d" % self._number)
        pid = _fork(path + ".out")
        if pid == 0:
            self._mode, self._path = mode, path
            end_with(self._scratch)
            _limit_cpu(max(5, int(CPU_SECONDS - time.process_time())))
            line = self._stages[0][min(index, len(self._stages[0]) - 1)]
            for name in without:
                line = _drop(name, line)
            self.config.clear()
            self.config.update(self._configs[index])
            if mode == "trial":
                self._stages = [[line]]
                if sys.argv[1:] == self._words:
                    sys.argv[1:] = line
            self._save()
            return None
        status, late = _wait_for(pid, CHILD_SECONDS if mode == "trial" else 600.0)
        with open(path, encoding="utf-8") as file:
            found: Dict[str, Any] = json.load(file)
        with open(path + ".out", encoding="utf-8", errors="replace") as file:
            text = file.read()[-20_000:]
        found["end"] = {"status": status, "late": late, "text": text, "usage": found.get("usage")}
        return found

    def _ask(self, lines: List[Words], call: Call) -> None:
        """Ask a parser about all lines in a child; in one for each if it parses but once."""
        found = _in_child(self._path + ".asked", lambda out: self._judge(lines, call, out, False))
        if found is None or found["once"]:
            found = self._judge(lines, call, self._path + ".asked", True)
        self._record["suspects"] += found["suspects"]
        self._record["asked"] = found["asked"]
        self._stages.append(found["left"])
        self._save()

    def _judge(self, lines: List[Words], call: Call, out: str, forked: bool) -> Dict[str, Any]:
        """Return suspects, each with the parameters that were left out before it was found."""

        def attempt(line: Words) -> Tuple[Optional[str], Words]:
            if not forked:
                return self._attempt(line, call, out)
            result = _in_child(out, lambda path: self._attempt(line, call, path))
            return ("it kills the process", []) if result is None else (result[0], result[1])

        first = attempt(lines[0])
        if not forked and attempt(lines[0])[0] != first[0]:
            return {"once": True, "suspects": [], "left": [], "asked": 0}
        suspects: Dict[Tuple[str, str], Dict[str, Any]] = {}
        left, end = [first[1]], time.monotonic() + ASKED_SECONDS
        for index, line in enumerate(lines):
            if time.monotonic() > end:
                break
            without: Words = []
            said, rest = first if index == 0 else attempt(line)
            left[index:] = [rest]
            while said is not None:
                name = self._find_culprit(said, line, without, attempt)
                key = (name, self._blank(said, index))
                suspect = {"index": index, "without": list(without), "name": name, "said": said}
                suspects.setdefault(key, suspect)
                if not name:
                    break
                without.append(name)
                line = _drop(name, line)
                said = attempt(line)[0]
        found = sorted(suspects.values(), key=lambda one: len(one["without"]))
        return {"once": False, "suspects": found, "left": left, "asked": len(left)}

    def _blank(self, said: str, index: int) -> str:
        """Return a complaint without the values of its configuration: what is the same for all."""
        values = sorted(map(str, self._configs[index].values()), key=len, reverse=True)
        return re.sub("|".join(map(re.escape, filter(None, values))) or "$^", "", said)

    def _attempt(self, line: Words, call: Call, out: str) -> Tuple[Optional[str], Words]:
        """Return what a parser complains of, None if it takes the line, and what it leaves over."""
        self.judging, self.inside, self.usage = True, True, ""
        start = _flush(out)
        try:
            return None, call(list(line))[1]
        except Accepted:
            return None, []
        except BaseException as error:
            said = self.usage or find_usage(error)
            if said:
                return said, []
            if isinstance(error, SystemExit):
                _flush(out)
                with open(out, encoding="utf-8", errors="replace") as file:
                    file.seek(start)
                    return tidy(file.read()) or "exit code %s" % error.code, []
            return "%s: %s" % (type(error).__name__, error), []
        finally:
            self.judging = self.inside = False

    def _find_culprit(self, said: str, line: Words, without: Words, attempt: Any) -> str:
        """Return the parameter that a complaint is about: named first, or alone in the way."""
        names = [name for name in self._configs[0] if name not in without and _find(name, line)]
        for prefix in ("--?", ""):
            found = []
            for name in names:
                pattern = "[-_]".join(re.escape(part) for part in re.split("[-_]", name))
                match = re.search(r"(?<![\w.-])%s%s(?![\w-]|\.\w)" % (prefix, pattern), said)
                found += [(match.start(), name)] if match else []
            if found:
                return min(found)[1]
        others = {name: attempt(_drop(name, line))[0] for name in names}
        alone = [name for name in names if others[name] is None]
        changed = [
            name for name in names if others[name] != said and "requir" not in str(others[name])
        ]
        return [*alone, *changed, ""][0]

    def _describe(self, call: Call) -> Any:
        """Note a parser's flags; it may add them while it parses."""
        result: Any = (None, ["…"])
        with open(os.devnull, "w", encoding="utf-8") as null:
            kept = sys.stdout, sys.stderr
            sys.stdout = sys.stderr = null
            self.judging = self.inside = True
            try:
                result = call(None)
            except BaseException:
                result = (None, [])
            finally:
                sys.stdout, sys.stderr = kept
                self.judging = self.inside = False
        self._add_flags()
        if result[0] is None or not result[1]:
            self.settle("parsed")
        self._wait("parsed")
        return result[0]

    def _add_flags(self) -> None:
        try:
            flags, subcommands = self._describe_last()
        except Exception:
            return
        self._record["style"] = self.style
        known = [one["names"] for one in self._record["flags"]]
        self._record["flags"] += [one for one in flags if one["names"] not in known]
        known = self._record["subcommands"]
        known += [one for one in subcommands if one not in known]
        self._save()

    def _may_parse_again(self) -> bool:
        """Return True if the project's code holds a parse that was not reached yet."""
        self._note_place()
        for path in self._list_files():
            with open(path, encoding="utf-8", errors="replace") as file:
                for number, line in enumerate(file, 1):
                    code = line.partition("#")[0]
                    if PARSES.search(code) and (path, number) not in self._seen:
                        return True
        return False

    def _note_place(self) -> None:
        frame: Any = sys._getframe(1)
        while frame is not None:
            self._seen.add((os.path.realpath(frame.f_code.co_filename), frame.f_lineno))
            frame = frame.f_back

    def _list_files(self) -> List[str]:
        files = [getattr(one, "__file__", None) for one in list(sys.modules.values())]
        return sorted({os.path.realpath(f) for f in files if f and self.is_of_project(f)})

    def _save(self) -> None:
        self._record.update(files=self._list_files(), foreign=self.foreign)
        _write(self._path, self._record)


def end_with(folder: str) -> None:
    """End this process once nothing waits for it: launchers start sessions of their own."""

    def watch() -> None:
        while os.path.exists(folder):
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def find_usage(error: BaseException) -> str:
    """Return a parser's own words if an exception is its usage error, else nothing."""
    kinds = type(error).__mro__
    names = {one.__name__ for one in kinds}
    module = type(error).__module__ + "."
    own = {"UsageError", "ArgumentError", "ParserError", "DocoptExit"} & names
    libraries = ("absl.flags.", "hydra.errors.", "omegaconf.errors.")
    if not own and not module.startswith(libraries):
        return ""
    words = getattr(error, "format_message", None)
    return (words() if words else str(error)).strip() or type(error).__name__


def tidy(text: str) -> str:
    """Return the sentence of a usage error without the usage, frames and colours around it."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.strip(" \t\u2502|").strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not re.match(r"[╭╰─━+┌└]", line)]
    for line in lines:
        found = re.search(r"\berror: (.+)", line, re.IGNORECASE)
        if found:
            return found.group(1)
    start = re.compile(r"usage:|try |for full helptext|\[-|FATAL", re.IGNORECASE)
    return " ".join([line for line in lines if not start.match(line)][:2] or lines[-1:])


def _find(name: str, line: Words) -> int:
    """Return how many words give a parameter in a line, 0 if none does; see also `_drop`."""
    return len(line) - len(_drop(name, line))


def _drop(name: str, line: Words) -> Words:
    """Return a line without a parameter."""
    kept: Words = []
    skip = False
    for word in line:
        if skip and not word.startswith("--"):
            skip = False
            continue
        head, equals, _ = word.partition("=")
        if head.startswith("--") and head[2:] == name:
            skip = not equals
        elif equals and head.lstrip("+") == name:
            skip = False
        else:
            skip = False
            kept.append(word)
    return kept


def _match(words: List[Any], stage: List[Words]) -> Optional[List[Words]]:
    """Return each line of a stage cut to the words that a parser gets of the first, if it does."""
    first = stage[0]
    if words == first:
        return stage
    picked, at = [], 0
    for word in words:
        if word not in first[at:]:
            return None
        at = first.index(word, at) + 1
        picked.append(at - 1)
    if not words:
        return None
    return [[one[i] for i in picked] for one in stage if len(one) == len(first)]


def _split(words: Words) -> Words:
    return [part for word in words for part in word.split()]


def _flush(out: str) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    return os.path.getsize(out)


def _write(path: str, value: Any) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file, default=str)
    os.replace(path + ".new", path)


def _limit_cpu(seconds: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def _fork(out: str) -> int:
    """Fork a child that prints into a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
    return pid


def _in_child(out: str, run: Callable[[str], Any]) -> Any:
    """Return what a function returns in a child, None if that ends otherwise."""
    answer = out + ".json"
    pid = _fork(out)
    if pid == 0:
        try:
            _write(answer, run(out))
        finally:
            os._exit(0)
    _wait_for(pid, CHILD_SECONDS)
    try:
        with open(answer, encoding="utf-8") as file:
            found = json.load(file)
        os.unlink(answer)
    except OSError:
        return None
    return found


def _is_importing() -> bool:
    """Return True if the main thread is inside an import statement."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _wait_for(pid: int, seconds: float) -> Tuple[int, bool]:
    """Return a child's exit code, negative for a signal, and whether it was ended as too late."""
    end, late, pause = time.monotonic() + seconds, False, 0.0005
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return (
                -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            ), late
        if time.monotonic() > end and not late:
            late = True
            os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
