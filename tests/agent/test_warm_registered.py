"""What an import registers with the process: loggers, exit handlers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.warm_starts import Starts, install_packages

PACKAGES = {
    "telling": "import logging; log = logging.getLogger('telling')",
    "quiet": "import logging; logging.getLogger('quiet').setLevel(30)",
    "leaving": """
import atexit, weakref
class Kept: pass
kept = Kept()
weakref.finalize(kept, print, "final")
atexit.register(print, "left")
""",
}


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    with install_packages(tmp_path, PACKAGES) as made:
        yield made


SILENCING = """
import logging.config, sys
if "silent" in sys.argv:
    logging.config.dictConfig({"version": 1})
import telling
telling.log.warning("heard")
"""


def test_loggers_are_there_once_their_module_is_imported(starts: Starts) -> None:
    starts.run_script(SILENCING)
    starts.begin()
    assert starts.run_script(SILENCING, "silent") == ("", "heard\n")
    assert starts.start == "warm"


SETTING_UP = """
import logging, sys
log = logging.getLogger(sys.argv[1])
log.setLevel("ERROR")
logging.getLogger("telling.part").warning("part")
import telling, quiet
telling.log.warning("warned")
logging.getLogger("telling").error(len(logging.getLogger("telling.part").parent.handlers))
print(sorted(n for n in logging.root.manager.loggerDict if n.startswith(("tell", "qui"))))
"""


def test_a_logger_is_as_the_script_has_set_it_up_before_an_import(starts: Starts) -> None:
    first = starts.run_script(SETTING_UP, "telling")
    assert "warned" not in first[1]
    starts.begin()
    assert starts.run_script(SETTING_UP, "telling") == first
    assert starts.start == "warm"
    reason = "quiet: the logger quiet was used before its import"
    assert f"deployer: {reason}; the run starts over" in starts.run_script(SETTING_UP, "quiet")[1]


LEAVING = """
import atexit, sys
atexit.register(print, "first")
if "leave" in sys.argv:
    import leaving
atexit.register(print, "last")
"""


def test_an_exit_handler_is_that_of_a_run_that_imports_its_module(starts: Starts) -> None:
    assert starts.run_script(LEAVING, "leave") == ("last\nleft\nfinal\nfirst\n", "")
    starts.begin()
    assert starts.run_script(LEAVING, "leave") == ("last\nleft\nfinal\nfirst\n", "")
    assert starts.start == "warm"
    assert starts.run_script(LEAVING) == ("last\nfirst\n", "")
    assert starts.start == "warm"
