"""What a rehearsal finds out, written to a file at its end; several parsers may add to it."""

import json
import os
import sys
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from .sources import list_project_files, list_unseen_parses

Words = List[str]
PACKAGES = ("site-packages", "dist-packages")
# Between a parser that leaves words over and the next one, which the script may never reach.
NEXT_PARSER_SECONDS = 5.0


class Judged(NamedTuple):
    """What a parser says of one command line: its problems, and the words that it left over."""

    problems: List[Dict[str, Any]]
    rest: Words


class Answer:
    """Collects what parsers say of each command line, and writes it down."""

    def __init__(self, path: str, command_lines: List[Words], folder: str) -> None:
        self._path = path
        self._lines = command_lines
        self._folder = folder
        self._known: List[List[Words]] = [command_lines]  # as given, then what each stage left over
        self._seen: List[Any] = []
        self._flags: Dict[str, Dict[str, Any]] = {}
        self._pending: Optional[Tuple[str, List[Judged]]] = None
        self._lock = threading.RLock()
        self._done = False
        self._opened: Set[str] = set()
        self.read_other_words = False  # by a parser of the script, perhaps of its command line

    def find_lines(self, words: Sequence[str]) -> Optional[List[Words]]:
        """Return all command lines in the form in which a parser got the first one, if it did."""
        return next((lines for lines in self._known if lines[0] == list(words)), None)

    def add_flags(self, flags: List[Dict[str, Any]]) -> None:
        """Note the flags of a parser."""
        for flag in flags:
            self._flags.setdefault(flag["names"][0], flag)

    def note_parse(self, place: Sequence[Any]) -> None:
        """Note the file and line from where a parser was called."""
        self._seen.append(tuple(place))

    def note_opened(self, path: str) -> None:
        """Note a file that is read, or a folder that is listed, if it is the project's."""
        inside = os.path.join(os.path.realpath(self._folder), "")
        real = os.path.realpath(path)
        if real.startswith(inside) and "__pycache__" not in real and len(self._opened) < 1000:
            self._opened.add(real)

    @property
    def may_parse_again(self) -> bool:
        """Tell whether the project's code holds a call of a parser that has not been reached."""
        return bool(list_unseen_parses(self._folder, self._seen))

    def settle(self, kind: str, judged: List[Judged], strict: bool, sure: bool = True) -> None:
        """Take the word of a parser for the last one, and end the process."""
        left = [] if strict else [self._find_left_over(i, one) for i, one in enumerate(judged)]
        self._write(
            {
                "parser": kind,
                "sure": sure,
                "problems": [one.problems for one in judged],
                "left_over": left,
            }
        )

    def leave_over(self, kind: str, judged: List[Judged]) -> None:
        """Note that a parser took what it knows; another one may take the rest soon."""
        self._known.append([one.rest for one in judged])
        timer = threading.Timer(NEXT_PARSER_SECONDS, self.settle, (kind, judged, False))
        timer.daemon = True
        timer.start()
        self._pending = (kind, judged)

    def end(self, reason: str, **more: Any) -> None:
        """Say that the script ended, or would do its work, before it had read all its flags."""
        if self._pending:
            self.settle(*self._pending, False)
        self._write({"ended": reason, **more})

    def _find_left_over(self, index: int, judged: Judged) -> Words:
        stages = [set(lines[index]) for lines in self._known[1:]]
        return [word for word in judged.rest if all(word in stage for stage in stages)]

    def _write(self, answer: Dict[str, Any]) -> None:
        with self._lock:
            if not self._done:
                self._done = True
                files = {*list_project_files(self._folder), *self._opened}
                answer.update(flags=list(self._flags.values()), files=sorted(files))
                answer["packages"] = [p for p in sys.path if os.path.basename(p) in PACKAGES]
                with open(self._path + ".new", "w", encoding="utf-8") as file:
                    json.dump(answer, file, default=str)
                os.replace(self._path + ".new", self._path)
            os._exit(0)
