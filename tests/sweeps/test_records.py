"""Records of sweeps: read in another environment, and written by several commands at once."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.config.paths import sweeps_folder
from deployer.sweeps.records import Records, SweepRecord
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import Viewer
from deployer.wandb_api.server import Inside, Server

# chr: that locale's command line is ASCII, too.
ASK = """
from pathlib import Path
from deployer.errors import ConfigError
from deployer.sweeps.records import Records
from deployer.sweeps.sweep_file import load_sweep
print(*(r.mutation_id for r in Records.load().made_from(Path("sweep.yaml"))))
try:
    load_sweep(Path(f"/n{chr(235)}w", "sweep.yaml"))
except ConfigError:
    print("unread")
print(*(r.mutation_id for r in Records.load().made_from(Path(f"/n{chr(235)}w", "sweep.yaml"))))
"""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_folder_that_the_locale_cannot_express_is_another_one(
    tmp_path: Path, locale: str
) -> None:
    for name, folder in (("here", str(tmp_path)), ("there", "/n\u00ebw")):
        Records.load().add(
            SweepRecord(name, "e/p/s", "embedded", "", folder, "sweep.yaml", "", 0.0)
        )
    ascii_only = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-P", "-c", ASK]
    environment = {**os.environ, **ascii_only}
    found = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert found.split() == ["here", "unread", "there"]


NOTE = """
import sys
from deployer.sweeps.records import Records
for number in range(20):
    Records.load().note("e/p/s", **{sys.argv[1]: f"{sys.argv[1]} {number}"})
"""


def test_what_commands_and_threads_note_at_the_same_time_is_all_kept() -> None:
    Records.load().add(SweepRecord("m", "e/p/s", "embedded", "", "/f", "sweep.yaml", "", 0.0))
    noting = [subprocess.Popen([sys.executable, "-c", NOTE, name]) for name in ("on", "commit")]

    def note(name: str) -> None:
        for number in range(20):
            Records.load().note("e/p/s", **{name: f"{name} {number}"})

    with ThreadPoolExecutor() as threads:
        list(threads.map(note, ("data", "cluster")))
    assert [process.wait() for process in noting] == [0, 0]
    [record] = Records.load()
    said = (record.on, record.commit, record.data, record.cluster)
    assert said == ("on 19", "commit 19", "data 19", "cluster 19")


def test_a_file_is_read_again_only_if_it_was_replaced() -> None:
    records = Records.load()
    for name in ("a", "b"):
        made = SweepRecord(name, f"e/p/{name}", "embedded", "", "/f", "sweep.yaml", "", 0.0)
        records.add(made)
    [a], [b] = records.of("e/p/a"), records.of("e/p/b")
    file = sweeps_folder() / "a.json"
    draft = file.with_suffix(".other")
    draft.write_text(file.read_text().replace('"commit": ""', '"commit": "c"'))
    draft.replace(file)
    later = Records.load()
    assert later.of("e/p/b")[0] is b
    assert later.of("e/p/a") == (replace(a, commit="c"),)
    file.unlink()
    later.change(a.is_same, commit="d")
    assert not file.exists()
    assert tuple(Records.load()) == (b,)


def test_nothing_is_made_where_nothing_is_noted() -> None:
    records = Records.load()
    records.note("e/p/s", on="local")
    records.forget(bool)
    assert not sweeps_folder().exists()


def test_a_sweep_of_another_clusters_backend_is_on_another_server() -> None:
    """A backend has the same address in every cluster."""
    url = "http://sweep-backend.lab.svc"
    made = SweepRecord("m", "e/p/s", "embedded", url, "/f", "sweep.yaml", "", 0.0)
    there = replace(made, backend_on="kubernetes", cluster="one")
    here = Server(Client("http://127.0.0.1:1", "key"), Viewer("me", "me"), embedded=True)
    one, two = (
        replace(here, inside=Inside("kubernetes", url, "", cluster)) for cluster in ("one", "two")
    )
    assert [there.is_on(server) for server in (here, one, two)] == [False, True, False]
    assert [made.is_on(server) for server in (here, one, two)] == [True, False, False]
