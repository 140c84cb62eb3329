"""Flag over environment over deployer.yaml over default; which W&B and which key."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.config.check import HINTS
from deployer.config.project import Flags, Project, derive_project
from deployer.config.settings import Settings
from deployer.errors import ConfigError
from tests.project_files import read_project

KEY = "k" * 40
OTHER_KEY = "o" * 40


def load(folder: Path, flags: Flags | None = None, **environment: str) -> Project:
    return read_project(folder, flags, **environment)


def write_netrc(folder: Path, *hosts: str) -> None:
    lines = [f"machine {host} login user password {KEY}\n" for host in hosts]
    (folder / ".netrc").write_text("".join(lines))


def write_settings(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[default]\n{text}\n")


def test_nothing_at_all_means_the_embedded_backend(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config.embedded
    assert (config.replicas, config.on, config.entity, config.key) == (1, "local", None, "")


def test_flag_beats_file_beats_environment_for_the_server(tmp_path: Path) -> None:
    write_netrc(tmp_path, "a.example:8080", "b.example", "c.example")
    (tmp_path / "deployer.yaml").write_text("wandb: http://b.example/\n")
    named = {"WANDB_BASE_URL": "http://c.example"}
    flagged = load(tmp_path, Flags(wandb="http://a.example:8080/"), **named)
    assert (flagged.wandb, flagged.wandb_source) == ("http://a.example:8080", "--wandb")
    assert flagged.explicit_wandb
    assert load(tmp_path, **named).wandb == "http://b.example"
    (tmp_path / "deployer.yaml").unlink()
    assert load(tmp_path, **named).wandb == "http://c.example"


def test_a_namespace_or_a_context_alone_names_a_cluster(tmp_path: Path) -> None:
    named = load(tmp_path, Flags(namespace="team", context="lab"))
    assert (named.on, named.explicit_on) == ("kubernetes", True)
    assert (named.kubernetes.context, named.kubernetes.namespace) == ("lab", "team")
    settings = "kubernetes: {namespace: mine, memory: 1Gi}\n"
    for on, expected in (("local", "kubernetes"), ("gke", "gke")):
        (tmp_path / "deployer.yaml").write_text(f"on: {on}\n{settings}")
        beside = load(tmp_path, Flags(namespace="team"))
        assert (beside.on, beside.kubernetes.namespace) == (expected, "team")
        assert beside.kubernetes.memory == load(tmp_path).kubernetes.memory
    assert beside.on_option == " --on gke --namespace team"
    for wrong in ("Not_a_name", ""):
        with pytest.raises(ConfigError, match=r"^--namespace: "):
            load(tmp_path, Flags(namespace=wrong))


def test_base_url_without_a_key_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"WANDB_BASE_URL: no key found for http://w.example"):
        load(tmp_path, WANDB_BASE_URL="http://w.example").require_key()
    assert load(tmp_path).require_key() == ""


@pytest.mark.parametrize("host", ["w.example", "w.example:9"])
def test_netrc_is_asked_for_the_host_with_its_port(tmp_path: Path, host: str) -> None:
    write_netrc(tmp_path, host)
    assert load(tmp_path, WANDB_BASE_URL=f"http://{host}").key == KEY
    assert load(tmp_path, WANDB_BASE_URL="http://w.example:10").key == ""


CLOUD = "https://api.forge.coreweave.com"


def test_a_key_alone_means_the_cloud(tmp_path: Path) -> None:
    assert load(tmp_path, WANDB_API_KEY=KEY).wandb == CLOUD
    for host in ("api.wandb.ai", "api.forge.coreweave.com"):
        write_netrc(tmp_path, host)
        config = load(tmp_path)
        assert (config.wandb, config.key) == (f"https://{host}", KEY)
        assert config.key_source == str(tmp_path / ".netrc")


def test_with_both_keys_of_the_cloud_the_newer_name_counts(tmp_path: Path) -> None:
    entries = (("api.wandb.ai", OTHER_KEY), ("api.forge.coreweave.com", KEY))
    lines = [f"machine {host} login user password {key}\n" for host, key in entries]
    (tmp_path / ".netrc").write_text("".join(lines))
    assert (load(tmp_path).wandb, load(tmp_path).key) == (CLOUD, KEY)
    # Each name of the cloud finds its own entry first.
    assert load(tmp_path, WANDB_BASE_URL="https://api.wandb.ai").key == OTHER_KEY


@pytest.mark.parametrize(
    "named",
    [
        *("https://api.wandb.ai/", "https://wandb.ai", "https://forge.coreweave.com/api/wandb"),
        *("https://forge.coreweave.com/wandb", "https://api.forge.coreweave.com"),
    ],
)
def test_each_name_of_the_cloud_finds_its_key_and_keeps_its_sweeps(
    tmp_path: Path, named: str
) -> None:
    write_netrc(tmp_path, "api.forge.coreweave.com")
    config = load(tmp_path, WANDB_BASE_URL=named)
    assert config.wandb in (CLOUD, "https://api.wandb.ai")
    assert config.key == KEY
    for other in (CLOUD, "https://api.wandb.ai"):
        assert config.for_server(other, "a record").key == KEY


@pytest.mark.parametrize("text", ["machine", "login user password x"])
def test_a_broken_netrc_is_an_error_only_where_a_login_is_looked_for(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".netrc").write_text(f"\n{text}\n")
    doubtful = load(tmp_path)
    assert doubtful.embedded  # a command that asks no server goes on
    with pytest.raises(ConfigError, match="is not an entry of a netrc file"):
        doubtful.check_login()
    with pytest.raises(ConfigError, match="is not an entry of a netrc file"):
        load(tmp_path, WANDB_BASE_URL="http://w.example").check_login()
    load(tmp_path, Flags(wandb="embedded")).check_login()
    assert not caplog.records
    load(tmp_path, WANDB_BASE_URL="http://w.example", WANDB_API_KEY=KEY).check_login()
    write_settings(tmp_path / "wandb" / "settings", f"api_key = {KEY}\n[default")
    with pytest.raises(ConfigError, match="is not in wandb's format"):
        load(tmp_path).check_login()
    load(tmp_path, WANDB_API_KEY=KEY).check_login()
    assert "is not in wandb's format" in caplog.text


def test_bytes_of_another_host_in_netrc_need_not_be_utf8(tmp_path: Path) -> None:
    write_netrc(tmp_path, "w.example")
    with (tmp_path / ".netrc").open("ab") as file:
        file.write(b"machine other.example login user password \xe4\xff\n")
    assert load(tmp_path, WANDB_BASE_URL="http://w.example").key == KEY


def test_default_entry_of_netrc_chooses_no_server_but_is_a_key(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(f"default login user password {KEY}\n")
    assert load(tmp_path).embedded
    assert load(tmp_path, WANDB_BASE_URL="http://w.example").key == KEY


def test_netrc_variable_names_another_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"machine w.example login user password {KEY}\n")
    config = load(tmp_path, WANDB_BASE_URL="http://w.example", NETRC=str(tmp_path / "keys"))
    assert config.key_source == str(tmp_path / "keys")


def test_wandb_init_names_entity_and_project_of_new_sweeps(tmp_path: Path) -> None:
    write_settings(tmp_path / "wandb" / "settings", "entity = team\nproject = of-init")
    (tmp_path / ".netrc").write_text(f"machine api.wandb.ai login user password {KEY}\n")
    config = load(tmp_path)
    assert config.entity_for(None, "me") == "team"
    assert config.entity_for("of-sweep", "me") == "of-sweep"
    assert config.project_for(None, "train.py") == "of-init"
    assert config.project_for("of-sweep", "train.py") == "of-sweep"
    assert load(tmp_path, WANDB_PROJECT="p").project_for("of-sweep", "train.py") == "p"
    embedded = load(tmp_path, Flags(wandb="embedded"))
    assert (embedded.entity_for(None, "me"), embedded.project_for(None, None)) == ("me", "of-init")


def test_settings_file_gives_server_and_key_after_the_environment(tmp_path: Path) -> None:
    write_netrc(tmp_path, "s.example")
    path = tmp_path / ".config" / "wandb" / "settings"
    write_settings(path, f"base_url = http://s.example\napi_key = {OTHER_KEY}")
    config = load(tmp_path)
    assert (config.wandb, config.key) == ("http://s.example", KEY)
    (tmp_path / ".netrc").unlink()
    config = load(tmp_path)
    assert (config.wandb, config.key, config.key_source) == (
        "http://s.example",
        OTHER_KEY,
        str(path),
    )
    # It is no key of another server, whoever names that.
    assert load(tmp_path, Flags(wandb="http://other.example")).key == ""
    assert load(tmp_path, WANDB_BASE_URL="http://other.example").key == ""
    assert load(tmp_path, WANDB_API_KEY=KEY).key == KEY
    moved = tmp_path / "moved"
    write_settings(moved / "settings", "base_url = http://m.example")
    config = load(tmp_path, WANDB_CONFIG_DIR=str(moved), WANDB_API_KEY=KEY)
    assert config.wandb == "http://m.example"


def test_no_key_is_ever_shown(tmp_path: Path) -> None:
    config = load(tmp_path, WANDB_API_KEY=KEY)
    assert KEY not in repr(config)


@pytest.mark.parametrize("wandb", ["wandb.example.org", "ftp://w", "Embedded"])
def test_a_server_is_embedded_or_an_address(tmp_path: Path, wandb: str) -> None:
    with pytest.raises(ConfigError, match="must be `embedded` or an address"):
        load(tmp_path, Flags(wandb=wandb))


def test_file_is_read_with_its_yaml_1_1_key_on(tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text("on: local\nreplicas: 3\nentity: team\nproject: p\n")
    config = load(tmp_path)
    assert (config.on, config.replicas) == ("local", 3)
    assert config.entity_for(None, "me") == "team"
    assert config.project_for(None, None) == "p"
    assert load(tmp_path, Flags(replicas=5)).replicas == 5


def test_all_complaints_about_the_file_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text("replica: 2\nreplicas: two\nentity: 3\nhue: 1\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert [(e.text, e.fix) for e in caught.value.findings] == [
        ("deployer.yaml:1: replica: unknown key", "did you mean `replicas`?"),
        ("deployer.yaml:2: replicas: 'two' is not a whole number", HINTS["a whole number"]),
        ("deployer.yaml:3: entity: 3 is not text", HINTS["text"]),
        ("deployer.yaml:4: hue: unknown key", f"known: {', '.join(Settings.__dataclass_fields__)}"),
    ]


def test_a_key_that_is_written_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text("replicas: 3\nentity: a\nreplicas: 4\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert caught.value.message == (
        "deployer.yaml:3: replicas: the key appears twice (also in line 1); the last one counts"
    )
    assert caught.value.hint == "remove one of them"


def test_unreadable_file_and_unknown_place(tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text("a: [\n")
    with pytest.raises(ConfigError, match=r"deployer.yaml:2:1: unreadable YAML"):
        load(tmp_path)
    (tmp_path / "deployer.yaml").write_text("replicas: 2\non: moon\n")
    with pytest.raises(ConfigError, match=r"deployer.yaml:2: on: 'moon' is not an executor"):
        load(tmp_path)


def test_entity_and_project_of_a_new_sweep_go_as_wandb_has_it(tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text("entity: of-file\nproject: of-file\n")
    environment = {"WANDB_API_KEY": KEY, "WANDB_ENTITY": "of-env", "WANDB_PROJECT": "of-env"}
    config = load(tmp_path, **environment)
    assert config.entity_for("of-sweep", "me") == "of-env"
    assert config.project_for("of-sweep", None) == "of-env"
    config = load(tmp_path, Flags(entity="of-flag", project="of-flag"), **environment)
    assert config.entity_for("of-sweep", "me") == config.project_for("of-sweep", None) == "of-flag"
    config = load(tmp_path)
    assert config.entity_for("of-sweep", "me") == config.project_for("of-sweep", None) == "of-sweep"


def test_entity_of_another_server_is_not_asked_for_on_the_embedded_one(tmp_path: Path) -> None:
    assert load(tmp_path, WANDB_ENTITY="team").entity_for(None, "me") == "me"


def test_project_is_derived_from_the_program_as_wandb_does(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    (repository / "a" / "b").mkdir(parents=True)
    assert derive_project("train.py", repository) == "uncategorized"
    (repository / ".git").mkdir()
    assert derive_project(None, repository / "a") == "repo"
    assert derive_project("train.py", repository) == "repo"
    assert derive_project("b/train.py", repository / "a") == "repo-a_b"
    assert derive_project("/elsewhere/train.py", repository) == "repo"


@pytest.mark.parametrize(
    "url", ["https://[::1", "https://a]b", "https://", f"https://{'a' * 70}.invalid", "http://a\nb"]
)
def test_what_is_no_address_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        load(tmp_path, WANDB_BASE_URL=url)


def test_an_address_with_a_login_is_refused_unseen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must not contain a login") as caught:
        load(tmp_path, WANDB_BASE_URL="https://ann:secret@w.example")
    assert "secret" not in str(caught.value) + caught.value.hint


def test_a_server_that_a_page_alone_names_gets_no_login_of_another(tmp_path: Path) -> None:
    own = load(tmp_path, WANDB_BASE_URL="https://w.example", WANDB_API_KEY=KEY)
    page = own.for_server("http://other.example", "the sweep's address", named=False)
    assert (page.key, page.has_login) == ("", False)
    assert own.for_server("http://other.example", "a record").key == KEY
    assert own.for_server("https://w.example", "the sweep's address", named=False).key == KEY
    token = load(tmp_path, WANDB_IDENTITY_TOKEN_FILE="token")
    assert token.has_login
    assert not token.for_server("http://other.example", "a page", named=False).has_login
    (tmp_path / ".netrc").write_text(f"default login user password {KEY}\n")
    assert not load(tmp_path).for_server("http://other.example", "a page", named=False).has_login
    write_netrc(tmp_path, "other.example")
    assert load(tmp_path).for_server("http://other.example", "a page", named=False).key == KEY
