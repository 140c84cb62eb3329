"""A site's profile: its defaults below deployer.yaml, and complaints at their places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deployer.config.causes import Cause
from deployer.config.project import Flags, Project
from deployer.config.sections.kubernetes_parts import Amount
from deployer.errors import ConfigError
from deployer.executors.kubernetes.diagnose.pending import add_hint
from tests.executors.pending import pending
from tests.project_files import read_project

FILE = "kubernetes:\n  namespace: team\n  image: trainer:1\n"
SITE = """\
site: our site
defaults:
  on: kubernetes
  kubernetes:
    queue: ${namespace}-queue
    memory: 8Gi
    labels: {unit: ours}
"""


def load(folder: Path, text: str = FILE, flags: Flags | None = None, **env: str) -> Project:
    (folder / "deployer.yaml").write_text(text)
    (folder / "site.yaml").write_text(SITE)
    return read_project(folder, flags, **env)


def refuse(folder: Path, profile: str, text: str = FILE) -> list[tuple[str, str]]:
    (folder / "deployer.yaml").write_text(text)
    (folder / "bad.yaml").write_text(profile)
    with pytest.raises(ConfigError) as refused:
        read_project(folder, Flags(profile="bad.yaml"))
    return [(part.text, part.fix) for part in refused.value.findings]


def test_defaults_are_the_sites_where_the_project_says_nothing(tmp_path: Path) -> None:
    text = f"{FILE}  memory: 2Gi\n  labels: {{mine: 'yes'}}\n"
    project = load(tmp_path, text, Flags(profile="site.yaml"))
    assert project.on == "kubernetes"
    assert project.kubernetes.queue == "team-queue"
    assert project.kubernetes.memory == Amount(request="2Gi", limit="2Gi")
    assert project.kubernetes.labels == {"unit": "ours", "mine": "yes"}


def test_what_users_do_about_a_wait_is_said_by_its_cause(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("site: x\nhints: {quota-used: 'ask ${namespace}@x'}\n")
    profile = load(tmp_path, FILE, Flags(profile="other.yaml")).profile
    assert profile
    assert profile.hints == {Cause.QUOTA_USED: "ask team@x"}
    bare = pending(Cause.QUOTA_USED, "a")
    assert add_hint(bare, profile.hints).fix == "ask team@x"
    assert add_hint(replace(bare, fix="b"), profile.hints).fix == "b; ask team@x"
    other = pending(Cause.QUEUED, "a", fix="b")
    assert add_hint(other, profile.hints) is other


def test_flag_beats_environment_beats_file(tmp_path: Path) -> None:
    named = f"profile: site.yaml\n{FILE}"
    of_file = load(tmp_path, named)
    assert of_file.profile
    assert of_file.profile.site == "our site"
    of_environment = load(tmp_path, named, DEPLOYER_PROFILE="eidf")
    assert of_environment.profile
    assert of_environment.profile.site == "the EIDF GPU service"
    flagged = load(tmp_path, named, Flags(profile="site.yaml"), DEPLOYER_PROFILE="eidf")
    assert flagged.profile == of_file.profile


def test_the_project_says_where_agents_run(tmp_path: Path) -> None:
    assert load(tmp_path, f"on: gke\n{FILE}", Flags(profile="site.yaml")).on == "gke"
    assert load(tmp_path, FILE, Flags(profile="site.yaml", on="local")).on == "local"


def test_one_of_ours_needs_no_file(tmp_path: Path) -> None:
    project = load(tmp_path, FILE, Flags(profile="eidf"))
    assert project.kubernetes.queue == "team-user-queue"
    assert project.kubernetes.generate_name


def test_its_namespace_has_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"kubernetes.namespace: is missing"):
        load(tmp_path, "replicas: 2\n", Flags(profile="eidf"))


def test_an_unknown_name_has_the_nearest_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="edif: profile not found") as refused:
        load(tmp_path, FILE, Flags(profile="edif"))
    assert refused.value.findings[0].fix == "did you mean `eidf`?"


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ("- 1", [("bad.yaml: is not a mapping", "write `site:` and its name")]),
        ("", [("bad.yaml: is not a mapping", "write `site:` and its name")]),
        ("defaults: {}", [("bad.yaml: site: is missing", "add `site:`")]),
        (
            "site: x\ndefaults:\n  kubernetes: {quee: a}\n  replicas: 0",
            [
                ("bad.yaml:3: defaults.kubernetes.quee: unknown key", "did you mean `queue`?"),
                ("bad.yaml:4: defaults.replicas: 0 is below 1", "write 1 or more"),
            ],
        ),
        (
            "site: x\ndemands:\n  - path: [a]\n    hnt: b",
            [
                ("bad.yaml:3: demands.[0].hint: is missing", "add `hint:`"),
                ("bad.yaml:4: demands.[0].hnt: unknown key", "did you mean `hint`?"),
            ],
        ),
        (
            "site: x\nhints: {quota: ask us}",
            [("bad.yaml:2: hints.quota: 'quota' is not known", "did you mean `quota-used`?")],
        ),
        ("site: [", None),
    ],
)
def test_every_complaint_has_its_place(
    tmp_path: Path, profile: str, said: list[tuple[str, str]] | None
) -> None:
    found = refuse(tmp_path, profile)
    assert said is None or found == [(a.replace(".[", "["), b) for a, b in said]
    assert found[0][0].startswith("bad.yaml")
