"""A package that is imported finds what the script has replaced in Python before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.agent.host.processes import reap
from tests.agent.warm_starts import Starts, install_packages

PACKAGES = {
    "echoing": "import sys; streams = sys.stdout, sys.stderr",
    "wrapping": """
import sys
kept = sys.stdout.write
sys.stdout.write = lambda text: kept(f"<{text}>")
""",
    "threaded": "from threading import Thread",
    "working": "import threading\nclass Worker(threading.Thread): pass",
    "looking": "import inspect; look = lambda one: inspect.getfile(one)",
    "sleeping": "import time; sleep = time.sleep",
    "connecting": "from socket import socket",
    "telling": "import logging; log = logging.getLogger('telling')",
}
TEE = """
import sys
class Tee:
    __slots__ = ("stream",)
    def __init__(self, stream):
        self.stream = stream
    def write(self, text):
        return self.stream.write(text.upper())
    def flush(self):
        self.stream.flush()
"""
# Scripts, and what they have replaced before the import of which package.
REPLACING = {
    "stdout": (
        f"{TEE}sys.stdout = Tee(sys.stdout)\n"
        "import echoing; print('told', file=echoing.streams[0])",
        "sys.stdout was replaced before echoing was imported",
    ),
    "stderr": (
        f"{TEE}sys.stderr = Tee(sys.stderr)\n"
        "import echoing; print('told', file=echoing.streams[1])",
        "sys.stderr was replaced before echoing was imported",
    ),
    "what a stream does": (
        f"{TEE}sys.stdout.write = Tee(sys.__stderr__).write\nimport wrapping\nprint('told')",
        "wrapping: write was replaced before its import",
    ),
    "a class": (
        "import threading\nclass Mine(threading.Thread): pass\nthreading.Thread = Mine\n"
        "import threaded; print(threaded.Thread)",
        "threading.Thread was replaced before threaded was imported",
    ),
    "a class of which others are made": (
        "import threading\nclass Mine(threading.Thread): pass\nthreading.Thread = Mine\n"
        "import working; print(working.Worker.__mro__)",
        "threading.Thread was replaced before working was imported",
    ),
    "a function in C": (
        "import time\ntime.sleep = print\nimport sleeping; sleeping.sleep(3)",
        "time.sleep was replaced before sleeping was imported",
    ),
    "a class of a module that others import": (
        "import socket\nclass Mine(socket.socket): pass\nsocket.socket = Mine\n"
        "import connecting; print(connecting.socket)",
        "socket.socket was replaced before connecting was imported",
    ),
    "the class of loggers": (
        "import logging\nclass Mine(logging.Logger): pass\nlogging.setLoggerClass(Mine)\n"
        "import telling; print(telling.log)",
        "the class of loggers was replaced before telling was imported",
    ),
}
# What is looked up at each call, or replaced once all is imported.
HARMLESS = f"""{TEE}
import inspect, ssl, warnings
inspect.getfile = str
ssl._create_default_https_context = ssl._create_unverified_context
warnings.showwarning = print
import echoing, wrapping, threaded, sleeping, telling, looking
sys.stdout = Tee(sys.stdout)
print("told", file=echoing.streams[0])
print(looking.look(3))
"""


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    with install_packages(tmp_path, PACKAGES) as made:
        yield made


@pytest.mark.parametrize("what", REPLACING)
def test_what_is_replaced_before_an_import_holds_for_it(starts: Starts, what: str) -> None:
    script, reason = REPLACING[what]
    out, err = starts.run_script(script)
    starts.begin()
    news = f"deployer: {reason}; the run starts over without a parent\n"
    assert starts.run_script(script) == (out, news + err)
    assert starts.run_script(script) == (out, err)
    assert starts.start == f"cold: {reason}"


def test_a_script_that_replaces_what_imports_keep_has_no_other_parent(starts: Starts) -> None:
    script, reason = REPLACING["stdout"]
    out, err = starts.run_script(script)
    starts.begin()
    starts.run_script(script)
    starts.end()
    starts.parent.lead(starts.cold)
    starts.parent.tend(reap())
    assert not (starts.folder / "warm.starting").exists()
    assert starts.run_script(script) == (out, err)
    assert starts.parent.read_start() == f"cold: {reason}"


def test_what_no_import_keeps_may_be_replaced(starts: Starts) -> None:
    cold = starts.run_script(HARMLESS)
    starts.begin()
    assert starts.run_script(HARMLESS) == cold
    assert starts.start == "warm"
