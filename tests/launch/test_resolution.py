"""Which sweep is meant, from records of earlier commands; nothing is contacted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deployer.config.project import Flags, Project
from deployer.errors import ConfigError
from deployer.launch.resolution import choose_sweep, resolve_executor, resolve_executors
from deployer.sweeps.records import Records, SweepRecord
from tests.project_files import read_project

KEY = "k" * 40


def make_config(folder: Path, wandb: str | None = None) -> Project:
    return read_project(folder, Flags(wandb=wandb), NETRC=str(folder / ".netrc"))


def record(path: str, folder: Path, created_at: float, server: str = "embedded") -> SweepRecord:
    made = SweepRecord(
        mutation_id=path.replace("/", "-") or "unmade",
        sweep_path=path,
        server=server,
        base_url="http://127.0.0.1:1" if server == "embedded" else server,
        folder=str(folder),
        file="f.yaml",
        content_hash="h",
        created_at=created_at,
    )
    Records.load().add(made)
    return made


def test_left_out_means_the_newest_made_from_this_folder(tmp_path: Path) -> None:
    record("e/p/old", tmp_path, 1.0)
    record("e/p/new", tmp_path, 2.0)
    record("e/p/elsewhere", tmp_path / "other", 3.0)
    record("", tmp_path, 4.0)
    assert str(choose_sweep(None, make_config(tmp_path)).path()) == "e/p/new"
    with pytest.raises(ConfigError, match="no sweep was created from"):
        choose_sweep(None, make_config(tmp_path / "third"))


def test_a_sweep_is_looked_for_where_it_was_made(tmp_path: Path) -> None:
    record("e/p/far", tmp_path, 1.0, "http://w.example")
    (tmp_path / ".netrc").write_text(f"machine w.example login user password {KEY}\n")
    for text in (None, "far", "e/p/far"):
        config = choose_sweep(text, make_config(tmp_path)).config
        assert (config.wandb, config.key) == ("http://w.example", KEY)
    assert choose_sweep("far", make_config(tmp_path, "embedded")).config.embedded
    with pytest.raises(ConfigError, match="no sweep was created from"):
        choose_sweep(None, make_config(tmp_path, "embedded"))


def test_a_path_needs_no_record(tmp_path: Path) -> None:
    choice = choose_sweep("e/p/s", make_config(tmp_path))
    assert choice.complete
    assert str(choice.path()) == "e/p/s"


def test_a_short_id_is_found_among_records_then_agents_then_guessed(tmp_path: Path) -> None:
    record("e/p/abc", tmp_path, 1.0)
    config = make_config(tmp_path)
    assert str(choose_sweep("abc", config).path()) == "e/p/abc"
    assert str(choose_sweep("xyz", config, ["q/r/xyz"]).path()) == "q/r/xyz"
    guess = choose_sweep("none", config, ["q/r/xyz"])
    assert not guess.complete
    assert str(guess.path("me")) == "me/uncategorized/none"
    assert str(choose_sweep("proj/none", config).path("me")) == "me/proj/none"


def test_an_address_says_server_and_path(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(f"machine api.wandb.ai login user password {KEY}\n")
    config = make_config(tmp_path)
    choice = choose_sweep("https://wandb.ai/team/proj/sweeps/abc", config)
    assert (choice.config.wandb, str(choice.path())) == ("https://api.wandb.ai", "team/proj/abc")
    for page in (
        "https://wandb.ai/team/proj/sweeps/abc/table?nw=1",
        "https://app.wandb.ai/team/proj/sweeps/abc",
        "https://forge.coreweave.com/wandb/team/proj/sweeps/abc",
    ):
        choice = choose_sweep(page, config)
        assert (choice.config.wandb, choice.config.key) == ("https://api.wandb.ai", KEY)
        assert str(choice.path()) == "team/proj/abc"
    dedicated = choose_sweep("https://app.corp.example/team/proj/sweeps/abc", config)
    assert dedicated.config.wandb == "https://api.corp.example"
    prefixed = choose_sweep("https://corp.example/tools/wandb/team/proj/sweeps/abc", config)
    assert prefixed.config.wandb == "https://corp.example/tools/wandb"
    assert str(prefixed.path()) == "team/proj/abc"
    own = choose_sweep("http://w.example:8080/team/proj/sweeps/abc?workspace=x", config)
    assert (own.config.wandb, str(own.path())) == ("http://w.example:8080", "team/proj/abc")


def test_a_page_is_that_of_the_server_in_use_if_it_may_be(tmp_path: Path) -> None:
    config = make_config(tmp_path, "https://api.wandb.corp.example")
    page = "https://wandb.corp.example/team/proj/sweeps/abc"
    assert choose_sweep(page, config).config.wandb == "https://api.wandb.corp.example"
    named = read_project(
        tmp_path, Flags(wandb="http://w.example"), WANDB_APP_URL="https://pages.example/w"
    )
    choice = choose_sweep("https://pages.example/w/team/proj/sweeps/abc", named)
    assert (choice.config.wandb, str(choice.path())) == ("http://w.example", "team/proj/abc")


@pytest.mark.parametrize("old", ["https://api.wandb.ai", "https://api.forge.coreweave.com"])
def test_a_sweep_is_found_under_a_later_name_of_its_server(tmp_path: Path, old: str) -> None:
    record("e/p/old", tmp_path, 1.0, old)
    netrc = f"machine api.forge.coreweave.com login user password {KEY}\n"
    (tmp_path / ".netrc").write_text(netrc)
    for text in (None, "old"):
        config = choose_sweep(text, make_config(tmp_path)).config
        assert (config.wandb, config.key) == ("https://api.forge.coreweave.com", KEY)
    named = choose_sweep(None, make_config(tmp_path, "https://forge.coreweave.com/api/wandb"))
    assert str(named.path()) == "e/p/old"


def test_records_come_newest_first_and_survive_a_broken_neighbour(tmp_path: Path) -> None:
    first, second = record("e/p/a", tmp_path, 1.0), record("e/p/b", tmp_path, 2.0)
    from deployer.config.paths import sweeps_folder

    (sweeps_folder() / "broken.json").write_text("{")
    assert tuple(Records.load()) == (second, first)
    Records.load().forget(second.is_same)
    Records.load().forget(second.is_same)
    assert Records.load().made_in(tmp_path) == (first,)


def test_agents_are_looked_for_where_they_were_started(tmp_path: Path) -> None:
    record("e/p/here", tmp_path, 1.0)
    record("e/p/there", tmp_path, 2.0)
    Records.load().note("e/p/there", on="kubernetes")
    config = make_config(tmp_path)
    places = [resolve_executor(text, config).on for text in (None, "there", "here", "e/p/unknown")]
    assert places == ["kubernetes", "kubernetes", "local", "local"]
    (tmp_path / "deployer.yaml").write_text("on: local\n")
    assert resolve_executor("there", make_config(tmp_path)).on == "local"


def test_agents_are_looked_for_in_their_context_and_namespace(tmp_path: Path) -> None:
    record("e/p/there", tmp_path, 1.0)
    Records.load().note("e/p/there", on="kubernetes", context="lab", namespace="team", pinned=True)

    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("contexts: [{name: lab, context: {}}, {name: home, context: {}}]\n")

    def settle(**flags: str) -> tuple[str | None, str | None]:
        project = read_project(tmp_path, Flags(**flags), KUBECONFIG=str(kubeconfig))
        found = resolve_executor("there", project)
        return found.kubernetes.context, found.kubernetes.namespace

    assert settle() == settle(on="kubernetes") == ("lab", "team")
    assert settle(namespace="mine") == ("lab", "mine")
    assert settle(context="home") == ("home", None)  # whose namespaces are others
    assert settle(on="gke") == (None, None)
    (tmp_path / "deployer.yaml").write_text("kubernetes: {namespace: sweeps}\n")
    assert settle() == ("lab", "team")
    kubeconfig.write_text("contexts: [{name: home, context: {}}]\n")
    with pytest.raises(ConfigError, match="has no context 'lab', in which e/p/there was started"):
        settle(namespace="mine")
    assert settle(context="home") == ("home", "sweeps")
    everything = resolve_executors(read_project(tmp_path))  # that context is nobody's concern here
    assert (everything.on, everything.kubernetes.context) == ("kubernetes", None)
    Records.load().note("e/p/there", pinned=False)  # the current context's, then
    assert settle() == (None, "sweeps")


def test_a_sweep_and_its_backend_are_in_one_namespace(tmp_path: Path) -> None:
    inside = record("e/p/inside", tmp_path, 1.0)
    place = {"on": "kubernetes", "context": "lab", "namespace": "team"}
    Records.load().add(replace(inside, backend_on="kubernetes", **place))
    assert choose_sweep("inside", read_project(tmp_path, Flags(namespace="team"))).complete
    with pytest.raises(ConfigError, match="--namespace: e/p/inside and its backend are in namesp"):
        choose_sweep("inside", read_project(tmp_path, Flags(namespace="other")))


def test_a_sweep_stays_with_the_embedded_backend_in_which_it_was_made(tmp_path: Path) -> None:
    here = record("e/p/here", tmp_path, 1.0)
    inside = record("e/p/inside", tmp_path, 2.0)
    Records.load().add(replace(inside, backend_on="kubernetes", on="kubernetes"))
    config = make_config(tmp_path)
    assert config.backend_on == "local"
    for text in ("inside", "e/p/inside", None, "http://127.0.0.1:20001/e/p/sweeps/inside"):
        found = choose_sweep(text, config)
        assert (found.sweep_id, found.config.backend_on) == ("inside", "kubernetes")
        assert found.config.embedded
    moved = resolve_executor("here", replace(config, on="kubernetes", explicit_on=True))
    assert choose_sweep("here", moved).config.backend_on == "local"
    named = make_config(tmp_path, "embedded")
    assert choose_sweep("inside", named).config.backend_on == "kubernetes"
    local = replace(named, explicit_on=True)
    assert choose_sweep("inside", local).config.backend_on == "local"
    assert str(choose_sweep(None, local).path()) == here.sweep_path


def test_a_new_sweep_goes_where_its_agents_go(tmp_path: Path) -> None:
    assert replace(make_config(tmp_path), on="gke").backend_on == "gke"
