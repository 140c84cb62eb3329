"""What an import reads, draws and changes is in a warm run what it is in a cold one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.agent.prologue.deployer_imports import is_secret
from tests.agent.warm_starts import Starts, install_packages
from tests.config.test_redaction import NASTY

# Packages as they are installed, each with what is peculiar about its import.
PACKAGES = {
    "drawing": "import uuid; value = str(uuid.uuid4())",
    "rolling": "import random; value = random.random()",
    "seeding": "import random; random.seed(3)",
    "dating": "import time; value = time.time_ns()",
    "owning": "import os; value = os.getpid()",
    "reading": "import os; value = os.environ.get('DEPLOYER_CHECKPOINT_DIR')",
    "needing": "import owning; value = owning.value",
    "changing": "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
    "generating": "import random; rng = random.Random()",
    "sampling": "import numpy; rng = numpy.random.default_rng()",
    "keeping": "import tempfile; folder = tempfile.TemporaryDirectory('keeping')",
    "setting": "import os; os.environ.setdefault('SET_AT_IMPORT', '1')",
    "filtering": "import warnings; warnings.filterwarnings('ignore', 'never mind')",
    "asking": "import os; value = os.environ.get('ASKED')",
    "bundle": "",
    "bundle.part": "value = 1",
    "first": "import bundle.other",
    "bundle.other": "value = 2",
    "odd": """
import sys, types
class Odd(types.ModuleType):
    def __setattr__(self, name, value):
        if name == "part" and "Handover" in [type(one).__name__ for one in sys.meta_path]:
            raise ValueError("odd")
        super().__setattr__(name, value)
sys.modules[__name__].__class__ = Odd
""",
    "odd.part": "value = 3",
    "settings": "value = 1",
    "printing": "print('imported')",
    "once": "import sys; assert not hasattr(sys, 'once'), 'only once'; sys.once = True",
    "configured": "import settings; value = settings.value",
    "lending": "from inspect import cleandoc as clean; value = clean(' a ')",
    "late": "import os; value = os.getpid()",
    "wrapping": """
import functools
class Wrapped:
    @property
    def __doc__(self):
        import late
        return late.value
value = functools.update_wrapper(lambda: None, Wrapped()).__doc__
""",
    "second": "import bundle.other; value = lambda: bundle.other.value",
}
UNEXAMINED = {"settings", "configured"}
UNFIT = {
    "drawing",
    "rolling",
    "seeding",
    "dating",
    "owning",
    "reading",
    "needing",
    "changing",
    "printing",
    "late",
    "wrapping",
}
# Prints what is the same in each run, then what is its own.
OBSERVER = """
import json, os, sys
before = sorted(sys.modules), dict(os.environ)
import warnings
filters = len(warnings.filters)
os.environ["ASKED"] = "by the script"
import bundle
has_part = hasattr(bundle, "part")
import drawing, dating, owning, reading, needing, changing, generating, sampling, keeping
import setting, filtering, asking, random, signal, logging
sys.stdout = sys.stderr
import printing
sys.stdout = sys.__stdout__
early = random.random()
import rolling, seeding
import bundle.part
import inspect, lending, wrapping
same = [
    owning.value == os.getpid() == needing.value, reading.value, asking.value, has_part,
    bundle.part.value, os.path.isdir(keeping.folder.name), os.environ["SET_AT_IMPORT"],
    "SET_AT_IMPORT" in before[1], len(warnings.filters) - filters, signal.getsignal(10) is not None,
    signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN, random.random(), before[0],
    sorted(name for name in sys.modules if "deployer" not in name), asking.__spec__.origin,
    type(asking.__loader__).__name__, type(asking.__spec__.loader).__name__, logging._startTime > 1,
    lending.value, lending.clean is inspect.cleandoc, lending.clean.__code__.co_name,
    lending.clean.__kwdefaults__, wrapping.value == os.getpid(),
]
own = [drawing.value, dating.value, generating.rng.random(), sampling.rng.random(), early,
       rolling.value, keeping.folder.name]
print(json.dumps([same, own]))
"""


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    with install_packages(tmp_path, PACKAGES, UNEXAMINED) as made:
        yield made


def test_no_run_has_what_another_one_drew_or_changed(starts: Starts) -> None:
    first = json.loads(starts.run_script(OBSERVER)[0])
    starts.begin()
    others = []
    for _ in range(2):
        out, err = starts.run_script(OBSERVER)
        assert (starts.start, err) == ("warm", "imported\n")
        others.append(json.loads(out))
    assert [same for same, _ in others] == [first[0], first[0]]
    for values in zip(first[1], *(own for _, own in others), strict=True):
        assert len(set(values)) == 3
    assert starts.read_unfit().keys() >= UNFIT
    assert not starts.read_unfit().keys() & (PACKAGES.keys() - UNFIT)


CHANGING = """
import os, sys
print("begun")
os.environ["ASKED"] = sys.argv[1]
import asking
print(asking.value)
"""


def test_another_variable_before_an_import_starts_the_run_over(starts: Starts) -> None:
    assert starts.run_script(CHANGING, "x") == ("begun\nx\n", "")
    starts.begin()
    assert starts.run_script(CHANGING, "x") == ("begun\nx\n", "")
    assert starts.start == "warm"
    reason = "asking: ASKED was changed before its import"
    out, err = starts.run_script(CHANGING, "y")
    assert out == "begun\nbegun\ny\n"
    assert err == f"deployer: {reason}; the run starts over without a parent\n"
    assert starts.start == f"cold: {reason}"
    assert starts.run_script(CHANGING, "z")[0] == "begun\nz\n"
    assert starts.start == f"cold: {reason}"


SECRET = """
import os, sys
import bundle
os.environ[sys.argv[1]] = sys.argv[2]
import asking
del os.environ[sys.argv[1]]
import first
print(asking.value)
"""


@pytest.mark.parametrize(
    ("name", "value"), [("ASKED_TOKEN", "hunter22"), ("ASKED", "redis://me:hunter22@db/0")]
)
def test_a_secret_that_a_script_sets_is_in_no_list(starts: Starts, name: str, value: str) -> None:
    cold = starts.run_script(SECRET, name, value)
    kept = Path(starts.warm["DEPLOYER_WARM_IMPORTS"]).read_text()
    assert {"bundle", "first"} <= set(kept.splitlines())
    assert "hunter22" not in kept
    assert "asking" not in kept
    starts.begin()
    assert starts.run_script(SECRET, name, value) == cold
    assert starts.start == "warm"


def test_names_of_secrets_are_those_of_lock_files_at_least() -> None:
    assert [name for name in NASTY.split() if not is_secret(name, "hunter22")] == []
    plain = ["OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", "PYTHONPATH", "HF_HOME"]
    assert [name for name in plain if is_secret(name, "https://example.org/a@b")] == []


MOVED = """
import sys
sys.path.insert(0, sys.argv[1])
import asking
print(asking.__file__)
"""


def test_another_path_before_an_import_starts_the_run_over(starts: Starts) -> None:
    starts.run_script(MOVED, "nowhere")
    starts.begin()
    starts.run_script(MOVED, "elsewhere")
    assert starts.start == "warm"
    (starts.project / "own").mkdir()
    (starts.project / "own" / "asking.py").touch()
    assert starts.run_script(MOVED, "own")[0].endswith("own/asking.py\n")
    assert starts.start == "cold: asking: sys.path leads to another one"


def test_a_package_that_was_edited_in_place_is_imported_anew(starts: Starts) -> None:
    script = "import bundle; print(vars(bundle).get('value'))"
    assert starts.run_script(script)[0] == "None\n"
    starts.begin()
    source = starts.project.parent / "site-packages" / "bundle" / "__init__.py"
    source.write_text("value = 2")
    assert starts.run_script(script)[0] == "2\n"
    assert starts.start == "cold: packages have changed"


FREE = """
import os, sys
os.environ["PL_GLOBAL_SEED"] = os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1]
import setting, numpy
print(numpy.ones(1))
"""


def test_what_no_library_reads_may_be_changed_before_its_import(starts: Starts) -> None:
    starts.run_script("import numpy, setting")  # in another order
    starts.begin()
    assert starts.run_script(FREE, "7") == ("[1.]\n", "")
    assert starts.start == "warm"


def test_what_goes_wrong_in_a_handover_starts_the_run_over(starts: Starts) -> None:
    script = "import odd; import odd.part as part; print(part.value)"
    starts.run_script(script)
    starts.begin()
    out, err = starts.run_script(script)
    assert "starts over" in err
    assert (out, starts.start) == ("3\n", "cold: odd.part: ValueError('odd')")


BRINGING = """
import sys
import importlib
print("numpy" in sys.modules)
import numpy
"""


def test_an_import_brings_no_more_than_it_does_cold(starts: Starts) -> None:
    assert starts.run_script(BRINGING) == ("False\n", "")
    starts.begin()
    assert starts.run_script(BRINGING) == ("False\n", "")
    assert starts.start == "warm"


CONFIGURED = """
import sys
import first
import settings
settings.value = sys.argv[1]
import configured
print(configured.value)
"""


def test_a_package_that_nobody_has_examined_sees_what_the_script_has_done(starts: Starts) -> None:
    starts.run_script(CONFIGURED, "x")
    starts.begin()
    assert starts.run_script(CONFIGURED, "y") == ("y\n", "")
    assert starts.start == "warm"


# As the SDK does for torch since `wandb.init`; what is only looked for is not imported.
ASKING = """
import importlib.util, sys
class Asking:
    names = ["once"]
    def find_spec(self, name, *_):
        if name in self.names:
            self.names.remove(name)
            return importlib.util.find_spec(name)
class Looking:
    def find_spec(self, name, *_):
        if name == "settings":
            print(importlib.util.find_spec("once").name, "once" in sys.modules)
sys.meta_path.insert(0, Looking())
import settings
sys.meta_path.insert(0, Asking())
import once
print(once.__spec__.name, type(once.__spec__.loader).__name__)
"""


def test_an_import_for_which_another_finder_asks_is_handed_over(starts: Starts) -> None:
    cold = starts.run_script(ASKING)
    assert cold == ("once False\nonce SourceFileLoader\n", "")
    starts.begin()
    assert starts.run_script(ASKING) == cold
    assert starts.start == "warm"


def test_what_a_module_has_imported_is_there_for_it(starts: Starts) -> None:
    starts.run_script("import bundle, first, second; print(second.value())")
    starts.begin()
    assert starts.run_script("import second; print(second.value())") == ("2\n", "")
    assert starts.start == "warm"


def test_cpu_affinity_is_that_of_the_agent(starts: Starts) -> None:
    script = "import bundle, os; print(os.sched_getaffinity(0))"
    starts.run_script(script)
    starts.begin()
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    try:
        assert starts.run_script(script)[0] == f"{{{min(mine)}}}\n"
    finally:
        os.sched_setaffinity(0, mine)
    assert starts.start == ("warm" if len(mine) == 1 else "cold: another CPU affinity")
