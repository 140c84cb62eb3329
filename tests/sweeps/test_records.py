"""Records of sweeps, read in another environment than that in which they were written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.sweeps.records import SweepRecord, save_record

# chr: that locale's command line is ASCII, too.
ASK = """
from pathlib import Path
from deployer.errors import ConfigError
from deployer.sweeps.records import load_records_of
from deployer.sweeps.sweep_file import load_sweep
print(*(r.mutation_id for r in load_records_of(Path("sweep.yaml"))))
try:
    load_sweep(Path(f"/n{chr(235)}w", "sweep.yaml"))
except ConfigError:
    print("unread")
print(*(r.mutation_id for r in load_records_of(Path(f"/n{chr(235)}w", "sweep.yaml"))))
"""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_folder_that_the_locale_cannot_express_is_another_one(
    tmp_path: Path, locale: str
) -> None:
    for name, folder in (("here", str(tmp_path)), ("there", "/n\u00ebw")):
        save_record(SweepRecord(name, "e/p/s", "embedded", "", folder, "sweep.yaml", "", 0.0))
    ascii_only = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-P", "-c", ASK]
    environment = {**os.environ, **ascii_only}
    found = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert found.split() == ["here", "unread", "there"]
