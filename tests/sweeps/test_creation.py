"""A sweep is made once, whatever fails in between; on both kinds of real server."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.config.project import Flags, Project, load_project
from deployer.errors import ConfigError, WandbError
from deployer.executors.registry import list_names
from deployer.launch.resolution import connect
from deployer.sweeps.creation import (
    Draws,
    MadeSweep,
    build_text,
    find_newest,
    find_rest,
    make_sweep,
)
from deployer.sweeps.records import Records
from deployer.sweeps.sweep_file import load_sweep
from deployer.wandb_api.operations import get_sweep, list_sweeps, set_sweep_state
from deployer.wandb_api.server import Inside, Server
from tests.conftest import ServedBackend

GRID = "program: train.py\nmethod: grid\nmetric: {name: loss}\nparameters: {lr: {values: [1, 2]}}\n"


@pytest.fixture(params=["backend", "plain_backend"])
def served(request: pytest.FixtureRequest) -> ServedBackend:
    """Give a backend as it is, then one that has nothing beyond W&B's own."""
    backend: ServedBackend = request.getfixturevalue(request.param)
    return backend


@pytest.fixture
def config(served: ServedBackend, tmp_path: Path) -> Project:
    """Point at the backend, with a project of the test's own."""
    (tmp_path / "grid.yaml").write_text(GRID)
    flags = Flags(project=f"making-{uuid.uuid4().hex[:8]}")
    return load_project(flags, served.environment, tmp_path, list_names())


@pytest.fixture
def server(config: Project) -> Server:
    """Connect as the command line does."""
    return connect(config)


NO_DRAWS = Draws()


def make(
    server: Server,
    config: Project,
    *,
    continued: bool = True,
    now: float = 0.0,
    draws: Draws = NO_DRAWS,
) -> MadeSweep:
    file = config.folder / "grid.yaml"
    return make_sweep(
        server, load_sweep(file), config, file=file, continued=continued, draws=draws, now=now
    )


def test_a_part_of_a_file_that_reuse_has_made_is_found(server: Server, config: Project) -> None:
    file = config.folder / "grid.yaml"
    whole = load_sweep(file)
    (config.folder / "rest.yaml").write_text(GRID.replace("[1, 2]", "[2]"))
    rest = load_sweep(config.folder / "rest.yaml")
    draws = {"continued": True, "draws": NO_DRAWS, "now": 0.0}
    made = make_sweep(server, rest, config, file=file, whole=whole, **draws)

    # `up` of the whole file goes on with none that is a part of it.
    assert find_newest(server, whole, config, file, NO_DRAWS) is None
    found = find_rest(server, whole, config, file, NO_DRAWS)
    assert found
    assert found.path == made.path
    own = make(server, config)
    assert own.created
    assert find_rest(server, rest, config, file, NO_DRAWS) is None


def count(server: Server, config: Project) -> int:
    assert config.project is not None
    return len(list_sweeps(server.client, server.viewer.entity, config.project))


def test_the_same_content_goes_on_and_other_content_does_not(
    server: Server, config: Project
) -> None:
    first = make(server, config)
    assert first.created
    assert make(server, config) == MadeSweep(first.path, created=False)
    program, rest = GRID.split("\n", 1)
    (config.folder / "grid.yaml").write_text(f"# only a comment\n{rest}{program}\n")
    assert make(server, config).path == first.path
    assert make(server, config, continued=False).path != first.path
    (config.folder / "grid.yaml").write_text(GRID.replace("[1, 2]", "[1, 3]"))
    second = make(server, config, now=1.0)
    assert second.created
    assert count(server, config) == 3
    assert Records.load().made_in(config.folder)[0].sweep_path == str(second.path)
    (config.folder / "grid.yaml").write_text(GRID)
    continued = make(server, config, now=2.0)
    assert Records.load().made_in(config.folder)[0].sweep_path == str(continued.path)


def test_a_paused_sweep_goes_on_and_an_ended_one_does_not(server: Server, config: Project) -> None:
    path = make(server, config).path
    set_sweep_state(server.client, get_sweep(server.client, path), "PAUSED")
    assert make(server, config).path == path
    assert get_sweep(server.client, path).state == "RUNNING"
    set_sweep_state(server.client, get_sweep(server.client, path), "CANCELED")
    assert make(server, config).path != path


def test_a_finished_sweep_goes_on_with_a_larger_run_cap(server: Server, config: Project) -> None:
    def make_capped(cap: int) -> MadeSweep:
        capped = GRID.replace("grid\n", f"random\nrun_cap: {cap}\n")
        (config.folder / "grid.yaml").write_text(capped)
        return make(server, config)

    path = make_capped(2).path
    set_sweep_state(server.client, get_sweep(server.client, path), "FINISHED")
    said = f"{path} continues: run_cap was 2, now 4"
    assert make_capped(4) == MadeSweep(path, created=False, warnings=(said,))
    info = get_sweep(server.client, path)
    assert (info.state, info.config["run_cap"]) == ("RUNNING", 4)
    said = f"run_cap of {path} stays 4; --new creates a sweep with 3"
    assert make_capped(3) == MadeSweep(path, created=False, warnings=(said,))
    set_sweep_state(server.client, get_sweep(server.client, path), "CANCELED")
    assert make_capped(5).path != path


@pytest.mark.parametrize("continued", [True, False])
def test_a_lost_reply_makes_no_second_sweep(
    server: Server, config: Project, continued: bool
) -> None:
    path = make(server, config, now=1e12).path
    (record,) = Records.load().made_in(config.folder)
    created_at = get_sweep(server.client, path).created_at or 0.0
    Records.load().add(replace(record, sweep_path="", created_at=created_at))
    assert make(server, config, continued=continued).path == path
    assert count(server, config) == 1
    assert [r.sweep_path for r in Records.load().made_in(config.folder)] == [str(path)]


def test_a_refusal_leaves_no_record(server: Server, config: Project) -> None:
    file = config.folder / "grid.yaml"
    refused = replace(load_sweep(file), text="method: none")
    with pytest.raises(WandbError):
        make_sweep(server, refused, config, file=file, continued=True, draws=NO_DRAWS, now=0.0)
    assert tuple(Records.load()) == ()


def test_a_record_of_a_sweep_that_is_gone_is_dropped(server: Server, config: Project) -> None:
    path = make(server, config).path
    (record,) = Records.load().made_in(config.folder)
    Records.load().add(replace(record, sweep_path=f"{path.entity}/{path.project}/gone"))
    assert make(server, config).created


def test_a_sweep_in_another_cluster_is_not_forgotten(server: Server, config: Project) -> None:
    """A backend has the same address in every cluster."""
    first, second = (
        replace(server, inside=Inside("kubernetes", "http://sweep-backend.lab.svc", "", uid))
        for uid in ("one", "two")
    )
    there = make(first, config)
    [record] = Records.load()
    Records.load().add(
        replace(record, sweep_path=f"{there.path}x")
    )  # unknown to the second's server
    made = make(second, config)
    assert made.created
    assert {one.cluster: one.sweep_path for one in Records.load()} == {
        "one": f"{there.path}x",
        "two": str(made.path),
    }


def test_a_sweep_whose_cluster_is_gone_is_not_looked_for_in_the_next(
    server: Server, config: Project
) -> None:
    """A new cluster's backend has the address of the one before."""
    make(server, config)
    [record] = Records.load().made_in(config.folder)
    copied = replace(record, sweep_path="e/p/copied", data="/copies/gke-1")
    Records.load().add(copied)
    assert make(server, config).created
    assert copied in Records.load().made_in(config.folder)


def test_what_only_the_embedded_backend_has_goes_to_the_top_level(config: Project) -> None:
    sweep = load_sweep(config.folder / "grid.yaml")
    assert build_text(sweep, Draws()) == build_text(sweep, Draws(retries=1)) == sweep.text
    assert "\nseed: 7\n" in build_text(sweep, Draws(seed=7))
    assert "\nretries: 0\n" in build_text(sweep, Draws(retries=0))


def test_other_retries_make_no_other_sweep(server: Server, config: Project) -> None:
    if not server.extended:
        with pytest.raises(ConfigError, match="does not retry failed runs"):
            make(server, config, draws=Draws(retries=3))
        assert tuple(Records.load()) == ()
        return
    first = make(server, config, draws=Draws(retries=3))
    assert make(server, config, draws=Draws(retries=3)).path == first.path
    assert make(server, config).path == first.path
    again = make(server, config, draws=Draws(retries=0))
    assert again.path == first.path
    assert again.warnings == (
        f"{first.path} keeps --retries 3; to run failed configurations again: "
        f"deployer heal {first.path} --retries 0",
    )
    assert get_sweep(server.client, first.path).config["retries"] == 3


@pytest.mark.parametrize("project", ["a/b/c", "50%"])
def test_a_name_that_is_no_part_of_an_address_is_refused(
    server: Server, config: Project, project: str
) -> None:
    """By whoever it was said: the file is checked when it is read."""
    with pytest.raises(ConfigError, match="which names cannot have") as caught:
        make(server, replace(config, project=project))
    assert caught.value.place == "--project"
    assert not Records.load().made_in(config.folder)


def test_what_the_file_is_warned_about_the_server_does_not_say_again(
    server: Server, config: Project
) -> None:
    text = GRID.replace("[1, 2]}", "[1, 2], qq: 1}")
    (config.folder / "grid.yaml").write_text(text)
    file = config.folder / "grid.yaml"
    sweep = load_sweep(file)
    assert any("parameters.lr" in warning for warning in sweep.warnings)
    draws = {"continued": False, "draws": NO_DRAWS, "now": 0.0}
    said = make_sweep(server, sweep, config, file=file, **draws).warnings  # type: ignore[arg-type]
    assert not [warning for warning in said if "parameters.lr" in warning]
    alone = replace(sweep, warnings=())
    said = make_sweep(server, alone, config, file=file, **draws).warnings  # type: ignore[arg-type]
    assert [warning for warning in said if "parameters.lr" in warning]
