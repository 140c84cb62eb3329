"""What a site demands of Jobs, against the manifests that a plan means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer.config.paths import find_packaged
from deployer.config.profile import Demand, Profile
from deployer.errors import ConfigError
from deployer.executors.base import Limits
from deployer.executors.kubernetes.manifests.demands import check_demands
from deployer.executors.plan import build_plan
from deployer.executors.registry import find_executor
from tests.project_files import read_project

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "a1", "labels": {"queue": "mine"}},
    "spec": {"containers": [{"cpu": "4"}, {"cpu": 2}], "seconds": 60},
}


def list_unmet(*path: str, **more: Any) -> list[str]:
    profile = Profile(site="here", demands=(Demand(path=path, hint="do so", **more),))
    try:
        check_demands(profile, [JOB, JOB, {**JOB, "kind": "ConfigMap", "apiVersion": "v1"}])
    except ConfigError as error:
        return [part.text for part in error.findings]
    return []


def check_profile(folder: Path, name: str, setting: str) -> None:
    section = f"{{namespace: team, image: trainer:1, {setting}}}"
    (folder / "deployer.yaml").write_text(f"profile: {name}\nkubernetes: {section}\n")
    project = read_project(folder)
    assert project.profile
    assert project.profile.demands
    plan = build_plan("team/digits/ab12cd34", "http://server", str(folder), 2)
    find_executor(project).check(plan, Limits())


def test_what_is_there_is_enough() -> None:
    assert list_unmet("metadata", "name") == []
    [said] = list_unmet("metadata", "generateName")
    assert said == "Job: metadata.generateName: is missing; here demands one"


def test_a_value_is_one_of_those_allowed() -> None:
    assert list_unmet("metadata", "labels", "queue", one_of=("mine", "yours")) == []
    [said] = list_unmet("metadata", "labels", "queue", one_of=("theirs", "yours"))
    assert said == "Job: metadata.labels.queue: is mine; here demands theirs or yours"


@pytest.mark.parametrize(("most", "unmet"), [(4, 0), (3, 1)])
def test_each_item_of_a_list_counts(most: int, unmet: int) -> None:
    assert len(list_unmet("spec", "containers", "*", "cpu", at_most=most)) == unmet


@pytest.mark.parametrize(("most", "unmet"), [("1Ki", 0), ("59", 1), (60, 0)])
def test_amounts_are_compared_with_their_units(most: int | str, unmet: int) -> None:
    assert len(list_unmet("spec", "seconds", at_most=most)) == unmet


def test_an_empty_list_has_nothing_to_judge() -> None:
    assert list_unmet("spec", "volumes", "*", "name") == []


def test_a_bound_asks_for_no_number() -> None:
    assert list_unmet("spec", "gpus", at_most=3) == []


def test_a_number_is_wanted_where_there_is_a_limit() -> None:
    assert len(list_unmet("metadata", "name", at_most=3)) == 1


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("gpu: 9", "limits.nvidia.com/gpu: is 9; the EIDF GPU service demands at most 8"),
        ("memory: 900Gi", "limits.memory: is 900Gi; the EIDF GPU service demands at most 890Gi"),
        ("max_time: 36d", "max-exec-time-seconds: is 3110460; the EIDF GPU service demands"),
    ],
)
def test_eidf_refuses_what_no_node_has(tmp_path: Path, setting: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_profile(tmp_path, "eidf", setting)


@pytest.mark.parametrize("name", [path.stem for path in find_packaged("infra/profiles").iterdir()])
def test_our_profiles_meet_their_own_demands(tmp_path: Path, name: str) -> None:
    check_profile(tmp_path, name, "gpu: 1")
