"""The section `data:`: what is taken, every complaint with its place, what runs are told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from deployer.config.data import DataSet, list_variables
from deployer.config.kubernetes import NfsFolder
from deployer.errors import ConfigError
from tests.project_files import read_project
from tests.sections import parse_data

EVERYTHING = """
- {path: /data/cifar10, claim: cifar10, size: 2Gi, storage_class: fast,
   access_mode: ReadWriteOnce, sub_path: images/train, read_only: false}
- {name: mnist, path: /data/mnist, nfs: {server: nas.example, path: /export/mnist}}
- {name: cats, path: /data/cats, url: "s3://datasets/cats.zip/", unpack: false,
   endpoint_url: "http://minio.example:9000/", secret: minio}
- {name: own-files, path: /data/own, folder: ../data}
"""
URL_HINT = "write s3://BUCKET/FOLDER or gs://BUCKET/FOLDER; keys do not belong in a file"


def complain(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        parse_data(yaml.safe_load(text))
    return [
        (error.text.removeprefix("deployer.yaml: "), error.fix) for error in caught.value.findings
    ]


def test_everything_that_can_be_said() -> None:
    first, second, third, fourth = parse_data(yaml.safe_load(EVERYTHING))
    assert (first.name, first.source, first.size, first.read_only) == (
        *("data", "claim"),
        *("2Gi", False),
    )
    assert second.nfs == NfsFolder(server="nas.example", path="/export/mnist")
    assert third == DataSet(
        name="cats",
        path="/data/cats",
        url="s3://datasets/cats.zip",
        endpoint_url="http://minio.example:9000",
        secret="minio",
        unpack=False,
    )
    assert (fourth.source, fourth.read_only) == ("folder", True)


def test_one_mapping_is_a_list_of_one_and_nothing_is_none() -> None:
    assert parse_data({"path": "/d", "claim": "c"}) == (DataSet(path="/d", claim="c"),)
    assert parse_data(None) == parse_data([]) == ()


def test_runs_are_told_where_the_first_is_and_each_by_name() -> None:
    sets = parse_data(yaml.safe_load(EVERYTHING))
    assert list_variables(sets)[:2] == (
        ("DEPLOYER_DATA_DIR", "/data/cifar10"),
        ("DEPLOYER_DATA_DIR_DATA", "/data/cifar10"),
    )
    assert ("DEPLOYER_DATA_DIR_OWN_FILES", "/here") in list_variables(sets, {"own-files": "/here"})
    assert list_variables(()) == ()


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("{path: /d}", "data: has no source", "give exactly one of claim, nfs, url, folder"),
        (
            "{path: /d, claim: a, folder: b}",
            "data: is in claim and folder",
            "give exactly one of claim, nfs, url, folder",
        ),
        ("{claim: a}", "data.path: is missing", "add `path:`"),
        ("{path: d, claim: a}", "data.path: 'd' is not valid", "write an absolute path"),
        (
            "{path: /deployer/x, claim: a}",
            "data: path: /deployer is reserved for deployer",
            "choose another",
        ),
        (
            "{path: /, claim: a}",
            "data: path: nothing can be mounted at /",
            "write a path such as /data",
        ),
        ("{path: /d, clam: a}", "data.clam: unknown key", "did you mean `claim`?"),
        (
            "{path: /d, url: 's3://b', sub_path: a}",
            "data: sub_path: applies only to claim, and this data set has url",
            "remove it",
        ),
        (
            "{path: /d, claim: a, sub_path: ../b}",
            "data: sub_path: is not a folder inside the claim",
            "write a path such as images/train",
        ),
        (
            "[{path: /a, claim: a}, {path: /b, claim: b}]",
            "data: two entries have the name 'data'",
            "give each entry its own name",
        ),
        (
            "[{path: /a, claim: a}, 3]",
            "data[1]: 3 is not a mapping",
            "write `name: value` pairs below it",
        ),
        (
            "{path: /d, url: /some/folder}",
            "data.url: is not the address of an object store",
            URL_HINT,
        ),
        ("{path: /d, url: 's3://b/../c'}", "data.url: has an empty, . or .. part", "remove it"),
    ],
)
def test_complaints(text: str, said: str, hint: str) -> None:
    assert complain(text) == [(said, hint)]


@pytest.mark.parametrize(
    "text",
    [
        "{path: /d, url: 's3://AKIA:hidden@bucket/x'}",
        "{path: /d, url: 's3://b', endpoint_url: 'http://user:hidden@minio:9000'}",
        "{path: /d, url: 's3://b/x?X-Amz-Signature=hidden'}",
    ],
)
def test_a_key_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    [(said, hint)] = complain(text)
    assert "hidden" not in said + hint
    assert "keys do not belong in a file" in hint


def test_a_complaint_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text("data:\n  path: /d\n  clam: a\n")
    with pytest.raises(ConfigError) as caught:
        read_project(tmp_path)
    assert caught.value.findings[0].text == "deployer.yaml:3: data.clam: unknown key"
    (tmp_path / "deployer.yaml").write_text("data: here\n")
    with pytest.raises(ConfigError) as caught:
        read_project(tmp_path)
    assert caught.value.message == "deployer.yaml:1: data: 'here' is not a list of mappings"


def test_the_project_has_its_data_sets(tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text("data:\n- path: /d\n  folder: x\n")
    assert read_project(tmp_path).data == (DataSet(path="/d", folder="x"),)
    (tmp_path / "deployer.yaml").write_text("replicas: 2\n")
    assert read_project(tmp_path).data == ()
