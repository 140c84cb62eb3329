"""Lock files: what is in them, what never is, and what is no lock file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deployer.config.sections.data import DataSet
from deployer.errors import ConfigError
from deployer.executors.base import Surroundings
from deployer.executors.plan import build_plan
from deployer.executors.registry import find_executor
from deployer.images.code_state import CodeState
from deployer.launch.lock.content import (
    DataState,
    Lock,
    dump_lock,
    find_image,
    list_manifests,
    parse_lock,
)
from deployer.launch.lock.file import (
    check_lock_place,
    find_kept,
    keep_lock,
    load_lock,
    name_lock,
    write_whole,
)
from deployer.launch.lock.writing import describe_data, write_lock
from deployer.launch.request import Request
from deployer.launch.session import Session
from deployer.model import SweepPath
from deployer.sweeps.sweep_file import parse_sweep
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import Viewer
from deployer.wandb_api.server import Server
from tests.executors.profiles import build_profile
from tests.project_files import read_project

SECRET = "hunter22-and-more"
LOCK = Lock(
    sweep="team/digits/ab12cd34",
    server="embedded",
    file="sweeps/digits.yaml",
    on="kubernetes",
    config={"method": "grid", "parameters": {"lr": {"values": [0.1, 1e-05]}}},
    seeds={"seed": 3},
    code=CodeState("sub", "c" * 40, "https://host/x.git", "diff --git a b\n+ä \n", ""),
    image="registry.example/x@sha256:1",
    surroundings=Surroundings("3.11.7", {"google-auth": "2.1", "torch": "2.0"}, "550.1", ("H200",)),
    data=(DataState("mnist", "data", 1, 100, "d" * 64, {"api_token.txt": "d" * 16}),),
    manifests=({"kind": "Job"},),
)
WHOLE = dump_lock(LOCK)
MARK = "# Written by `deployer up`\n"


def test_what_is_written_is_read_again() -> None:
    assert parse_lock(dump_lock(LOCK), "x.lock.yaml") == LOCK
    assert dump_lock(LOCK) == dump_lock(replace(LOCK))


def test_no_secret_gets_in_from_anywhere() -> None:
    job = {
        "kind": "Job",
        "metadata": {"annotations": {"team/api-token": SECRET}},
        "spec": {
            "template": {
                "spec": {
                    "containers": [
                        {
                            "args": ["--password", SECRET, f"--api-key={SECRET}"],
                            "env": [
                                {"name": "HF_TOKEN", "value": SECRET},
                                {
                                    "name": "WANDB_API_KEY",
                                    "valueFrom": {"secretKeyRef": {"name": "s", "key": "secret"}},
                                },
                            ],
                        }
                    ]
                }
            }
        },
    }
    secret = {"kind": "Secret", "stringData": {"x": SECRET}}
    config = {
        "command": ["python", "train.py", f"--token={SECRET}", "${args}"],
        "parameters": {"wandb_key": {"value": SECRET}, "num_tokens": {"value": 512}},
    }
    lock = replace(
        LOCK,
        server=f"https://me:{SECRET}@wandb.example",
        config=config,
        manifests=list_manifests([secret, job]),
    )
    text = dump_lock(lock)
    assert SECRET not in text
    [written] = yaml.safe_load(text)["manifests"]
    environment = written["spec"]["template"]["spec"]["containers"][0]["env"]
    assert environment[1]["valueFrom"] == {"secretKeyRef": {"name": "s", "key": "secret"}}
    assert yaml.safe_load(text)["config"]["parameters"]["num_tokens"] == {"value": 512}


def test_manifests_are_those_of_one_agent_with_packed_files_by_their_hash() -> None:
    found = list_manifests([*build_profile("plain"), *build_profile("plain")])
    assert [one["kind"] for one in found].count("Job") == 1
    packed = [one["binaryData"] for one in found if "binaryData" in one]
    assert packed
    assert all(text.startswith("sha256:") for one in packed for text in one.values())
    assert find_image(found) == "trainer:1"
    local = build_plan("a/b/c", "http://x", "/project", 2)
    assert list_manifests([local])[0]["folder"] == "/project"
    assert find_image(list_manifests([local])) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("method: grid\n", "is no lock file of deployer"),
        (f"{MARK}version: 1\n", "is cut off: the line ... at its end is missing"),
        (f"{MARK}version: 99\n...\n", "was written by a newer deployer: version 99"),
        (WHOLE.replace(": kubernetes", ": 3"), "a broken lock file: 3 is not text"),
        (WHOLE.replace("server: embedded\n", ""), "a broken lock file: is missing"),
        (
            WHOLE.replace("  seed:", "  - seed:"),
            "a broken lock file: [{'seed': 3}] is not a mapping",
        ),
        (WHOLE.replace("file: ", "file: ["), "a broken lock file: unreadable YAML: a list "),
        (f"{MARK}- 1\n...\n", "a broken lock file: "),
    ],
)
def test_other_and_broken_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.lock.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_lock(path)
    assert raised.value.message.startswith(f"{path}:")
    assert said in raised.value.message
    ours = text.startswith(MARK.rstrip("\n")) and "version: 99" not in text
    assert ("git checkout the file" in raised.value.hint) == ours
    assert (f"deployer reproduce best {LOCK.sweep}," in raised.value.hint) == (LOCK.sweep in text)


def test_no_place_for_a_lock_file_is_one_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "x.lock.yaml"
    path.write_text("version: 1\n")
    with pytest.raises(ConfigError, match="there is such a file, and it is no lock file"):
        check_lock_place(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is broken: it is no text"):
        load_lock(path)
    with pytest.raises(ConfigError, match="cannot be read: no such file"):
        load_lock(tmp_path / "none.lock.yaml")


def test_a_lock_file_lies_beside_its_sweep_and_a_copy_in_the_state_folder(tmp_path: Path) -> None:
    place = name_lock(tmp_path / "digits.yaml")
    assert place == tmp_path / "digits.lock.yaml"
    check_lock_place(place)
    write_whole(place, dump_lock(LOCK))
    check_lock_place(place)
    assert [path.name for path in tmp_path.glob("*digits*")] == ["digits.lock.yaml"]
    keep_lock("kept", LOCK.sweep, "embedded")
    kept = find_kept(LOCK.sweep, "embedded")
    assert kept is not None
    assert kept.read_text() == "kept"
    assert find_kept(LOCK.sweep, "https://other.example") is None


def test_a_lock_file_that_cannot_be_written_is_a_warning(tmp_path: Path, told: list[str]) -> None:
    sweep = parse_sweep("{program: a.py, method: grid, parameters: {lr: {values: [1]}}}", "x.yaml")
    project = read_project(tmp_path)
    server = Server(Client("http://127.0.0.1:9", "key"), Viewer("", ""), embedded=True)
    path = SweepPath(*LOCK.sweep.split("/"))
    session = Session(project, find_executor(project), server, path)
    plan = build_plan(LOCK.sweep, "http://127.0.0.1:9", str(tmp_path), 1)
    keep_lock(WHOLE, LOCK.sweep, "embedded")
    write_lock(session, Request(tmp_path / "x.yaml", sweep, lock=tmp_path / "a/b"), plan)
    [line] = told
    assert line.startswith(f"warning: no lock file {tmp_path}/a/b: ")


def test_a_folder_of_data_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.bin").write_bytes(b"one")
    data = DataSet(name="mnist", path="/data", folder="data")
    first = describe_data(data, tmp_path, runs_here=False)
    assert (first.files, first.size_bytes, len(first.sha256)) == (1, 3, 64)
    (tmp_path / "data" / "x.bin").write_bytes(b"two")
    assert describe_data(data, tmp_path, runs_here=False).sha256 != first.sha256
    elsewhere = DataSet(name="mnist", path="/data", claim="datasets")
    assert describe_data(elsewhere, tmp_path, runs_here=False) == DataState("mnist", "datasets")
    assert describe_data(elsewhere, tmp_path, runs_here=True).files == 0
