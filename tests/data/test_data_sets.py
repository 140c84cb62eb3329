"""Data sets of a project: put, brought, listed, deleted; on this machine and in an object store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deployer.config import paths
from deployer.config.project import Project
from deployer.data.copy import Silence
from deployer.data.folder_store import FolderStore
from deployer.data.store import ORIGIN_NOTE
from deployer.errors import ConfigError, DataError, DeployerError, collect_refusals
from deployer.executors.registry import find_executor
from deployer.launch import data_sets
from tests.data.archives import write_tar
from tests.data.object_servers import BUCKET, ObjectServer
from tests.data.stores import make_tree, read_tree
from tests.project_files import read_project

SIZES = {"train/a": 2000, "labels.csv": 30}
QUIET = Silence()


def read(folder: Path, data: str) -> Project:
    folder.mkdir(exist_ok=True)
    (folder / "deployer.yaml").write_text(f"data: {data}\n")
    return read_project(folder)


def put(project: Project, source: Path, name: str | None = None, unpacked: bool = True) -> str:
    data = data_sets.find_data(project, name)
    return data_sets.put(project, data, str(source), QUIET, unpacked).target


def bring(project: Project) -> data_sets.Transfer:
    return data_sets.bring(project, data_sets.find_data(project, None), QUIET)


def list_states(project: Project) -> list[tuple[int, str]]:
    with collect_refusals() as refusals:
        found = list(data_sets.list_places(project, refusals))
    return [(one.files, one.state) for one in found]


def refuse(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(DeployerError) as raised:
        call()
    return raised.value.message, raised.value.hint


def test_a_folder_of_this_machine(tmp_path: Path) -> None:
    project = read(tmp_path / "project", "{path: /data, folder: ../held}")
    assert list_states(project) == [(0, "missing")]
    content = make_tree(tmp_path / "from", SIZES)
    assert put(project, tmp_path / "from") == str(tmp_path / "project/../held")
    assert read_tree(FolderStore(tmp_path / "held")) == content
    assert list_states(project) == [(2, "whole")]
    data = data_sets.find_data(project, "data")
    data_sets.get(project, data, tmp_path / "out", QUIET)
    assert read_tree(FolderStore(tmp_path / "out")) == content
    assert "is already on this machine, where runs see it" in refuse(lambda: bring(project))[0]
    data_sets.delete(project, data, False)
    assert not (tmp_path / "held").exists()
    gone = "data set data was not found where runs on local see it; nothing was deleted"
    for act in (data_sets.check_deletable, data_sets.delete):
        said, hint = refuse(lambda act=act: act(project, data, False))  # type: ignore[misc]
        assert said == gone
        assert hint.startswith("deployer data list")


def test_what_is_in_a_cluster_has_a_folder_here_for_runs_here(tmp_path: Path) -> None:
    project = read(tmp_path / "project", "{path: /data, claim: images}")
    make_tree(tmp_path / "from", SIZES)
    place = Path(put(project, tmp_path / "from"))
    assert place.parent == paths.data_folder()
    other = read(tmp_path / "other", "{path: /data, claim: images}")
    assert list_states(other) == [(0, "missing")]


def test_an_archive_is_unpacked_unless_it_is_to_be_kept(tmp_path: Path, told: list[str]) -> None:
    archive = write_tar(tmp_path / "set.tar.gz", {"set/a": b"1"})
    project = read(tmp_path / "project", "{path: /data, folder: held}")
    put(project, archive, unpacked=False)
    put(project, archive)
    held = FolderStore(tmp_path / "project/held")
    assert [entry.path for entry in held.list_entries()] == ["set.tar.gz", "set/a"]
    assert list((paths.data_folder() / "unpacking").iterdir()) == []
    archive.rename(tmp_path / "set.tar.zst")
    data = project.data[0]
    data_sets.put(project, data, str(tmp_path / "set.tar.zst"), QUIET, True)
    assert told[-1].startswith("set.tar.zst is copied without unpacking")
    (tmp_path / "set.tar.zst").rename(archive)
    kept = read(tmp_path / "kept", "{path: /data, folder: held, unpack: false}")
    put(kept, archive)
    assert (tmp_path / "kept/held/set.tar.gz").is_file()
    hostile = write_tar(tmp_path / "hostile.tar", {"../out": b"1"}, mode="w")
    assert "points outside the archive" in refuse(lambda: put(project, hostile))[0]


def test_what_cannot_be_meant(tmp_path: Path) -> None:
    none = read_project(tmp_path)
    assert refuse(lambda: data_sets.find_data(none, None)) == (
        "deployer.yaml: data: it has no data set",
        "data: {path: /data, folder: data} in deployer.yaml",
    )
    two = read(tmp_path / "p", "[{path: /a, folder: a}, {name: b, path: /b, folder: b}]")
    assert refuse(lambda: data_sets.find_data(two, None))[1] == "name one of: data, b"
    assert refuse(lambda: data_sets.find_data(two, "c"))[1] == "one of: data, b"
    assert "file or folder not found" in refuse(lambda: put(two, tmp_path / "x", "b"))[0]
    (tmp_path / "empty").mkdir()
    assert "is empty" in refuse(lambda: put(two, tmp_path / "empty", "b"))[0]


def test_a_run_is_refused_without_its_data(tmp_path: Path) -> None:
    project = read(tmp_path / "project", "{path: /data, folder: held}")
    check = find_executor(project).data.check
    said = f"data set data is not on this machine: {tmp_path / 'project/held'} is empty"
    assert refuse(check) == (said, "deployer data put SOURCE data")
    held = FolderStore(tmp_path / "project/held")
    with pytest.raises(ConfigError), held.copying():
        raise ConfigError("broken", "off")
    assert "was interrupted" in refuse(check)[0]
    make_tree(tmp_path / "from", SIZES)
    put(project, tmp_path / "from")
    check()
    two = read(tmp_path / "two", "[{path: /a, folder: a}, {name: b, path: /b, folder: b}]")
    with pytest.raises(DeployerError) as raised:
        find_executor(two).data.check()
    assert [part.text.partition(" is ")[0] for part in raised.value.findings] == [
        "data set data",
        "data set b",
    ]
    away = read(tmp_path / "away", "{name: cats, path: /data, url: 's3://bucket/cats'}")
    assert refuse(find_executor(away).data.check)[1] == "deployer data preload cats"


@pytest.mark.slow
def test_an_object_store_is_brought_here_once(object_server: ObjectServer, tmp_path: Path) -> None:
    address = f"s3://{BUCKET}/{tmp_path.name}/set"
    project = read(
        tmp_path / "project",
        f"{{path: /data, url: '{address}', endpoint_url: {object_server.url}}}",
    )
    content = make_tree(tmp_path / "from", SIZES)
    assert put(project, tmp_path / "from") == address
    assert list_states(project) == [(0, "missing")]
    first = bring(project)
    assert first.copied is not None
    assert read_tree(FolderStore(Path(first.target))) == content
    assert list_states(project) == [(2, "whole")]
    find_executor(project).data.check()
    assert bring(project).copied is None
    # What is new comes, what is gone goes, what was put there by hand stays.
    (Path(first.target) / "own").write_text("own")
    make_tree(tmp_path / "from", {"train/b": 5})
    put(project, tmp_path / "from")
    store = data_sets.open_kept(project.data[0], project.folder)
    assert store is not None
    store.delete("labels.csv")
    second = bring(project).copied
    assert second is not None
    assert (second.files, second.equal_files) == (2, 1)
    held = {path.name for path in Path(first.target).rglob("*") if path.is_file()}
    assert held == {"a", "b", "own", ORIGIN_NOTE}
    data_sets.delete(project, project.data[0], True)
    assert store.list_entries() == []
    assert "is empty" in refuse(lambda: bring(project))[0]


@pytest.mark.slow
def test_an_archive_in_an_object_store_is_unpacked_once(
    object_server: ObjectServer, tmp_path: Path
) -> None:
    address = f"s3://{BUCKET}/{tmp_path.name}/cats.tar.gz"
    project = read(
        tmp_path / "project",
        f"{{path: /data, url: '{address}', endpoint_url: {object_server.url}}}",
    )
    archive = write_tar(tmp_path / "other-name.tgz", {"cats/a": b"1", "cats/b": b"2"})
    make_tree(tmp_path / "from", SIZES)
    assert "is a single archive" in refuse(lambda: put(project, tmp_path / "from"))[0]
    put(project, archive)
    brought = bring(project)
    assert read_tree(FolderStore(Path(brought.target))) == {"cats/a": b"1", "cats/b": b"2"}
    assert bring(project).copied is None
    assert not any((paths.data_folder() / "archives").iterdir())
    (Path(brought.target) / "cats/b").unlink()
    again = bring(project).copied
    assert again is not None
    assert (again.files, again.equal_files) == (2, 1)
    data_sets.delete(project, project.data[0], True)
    with pytest.raises(DataError):
        bring(project)


@pytest.mark.parametrize("name", ["cats.zip", "cats.tar.gz"])
def test_what_could_not_be_unpacked_is_not_put_as_the_archive(tmp_path: Path, name: str) -> None:
    project = read(tmp_path, f"{{path: /data, url: 's3://bucket/{name}'}}")
    tar = write_tar(tmp_path / "a.tar.gz", {"a": b"1"})
    wrong = tar if name == "cats.zip" else tmp_path / "deployer.yaml"
    assert refuse(lambda: put(project, wrong)) == (
        f"{wrong} is not an archive like {name}",
        "pack it in that format, or correct `url:` in deployer.yaml",
    )


def test_places_that_make_no_sense(tmp_path: Path) -> None:
    project = read(tmp_path / "project", "{path: /data, folder: held}")
    make_tree(tmp_path / "project", {"a": 1})
    said, hint = refuse(lambda: put(project, tmp_path / "project"))
    assert "is inside" in said
    assert hint == "choose a folder outside it"
    make_tree(tmp_path / "held", {"a": 1})
    around = read(tmp_path / "around", "{path: /data, folder: ../held}")
    inside = tmp_path / "held/copy"
    data = around.data[0]
    assert "is inside" in refuse(lambda: data_sets.get(around, data, inside, QUIET))[0]
    assert "is neither a file nor a folder" in refuse(lambda: put(project, Path("/dev/null")))[0]
    assert all(refuse(lambda: data_sets.get(project, data, Path("/proc/x"), QUIET)))
    said, _ = refuse(lambda: data_sets.put(project, data, "", QUIET, True))
    assert said == "SOURCE: is empty"
    under_a_file = read(tmp_path / "project", "{path: /data, folder: a/b}")
    assert refuse(lambda: put(under_a_file, tmp_path / "project/deployer.yaml")) == (
        f"{tmp_path / 'project/a'} is not a folder",
        "name another one",
    )
    key = "s3://AKIA:hidden@bucket/x"
    data = project.data[0]
    said, hint = refuse(lambda: data_sets.put(project, data, key, QUIET, True))
    assert "hidden" not in said + hint


def test_what_killed_commands_have_unpacked_is_removed_by_the_next(tmp_path: Path) -> None:
    left, held = (paths.data_folder() / "unpacking" / name for name in ("left", "held"))
    make_tree(left, {"files/a": 1, ".deployer-partial/x": 1})
    project = read(tmp_path / "project", "{path: /data, folder: held}")
    with FolderStore(held).copying():
        put(project, write_tar(tmp_path / "set.tar.gz", {"set/a": b"1"}))
        assert held.is_dir()
    assert not left.exists()


def test_a_copy_that_was_broken_off_is_not_handed_on(tmp_path: Path) -> None:
    project = read(tmp_path / "project", "{path: /data, folder: held}")
    make_tree(tmp_path / "project/held", SIZES)
    held = FolderStore(tmp_path / "project/held")
    with pytest.raises(ConfigError), held.copying():
        raise ConfigError("broken", "off")
    data = project.data[0]
    said, hint = refuse(lambda: data_sets.get(project, data, tmp_path / "out", QUIET))
    assert said == f"data set data: a copy to {held} is running or was interrupted"
    assert hint == "deployer data put SOURCE data, with the same SOURCE"


@pytest.mark.parametrize("folder", [".", "..", "/", "linked"])
def test_a_folder_with_more_than_the_data_set_is_not_deleted(tmp_path: Path, folder: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "elsewhere")
    project = read(tmp_path, f"{{path: /data/x, folder: {folder}}}")
    with pytest.raises(DataError, match=r"also holds other files|is a link to"):
        data_sets.check_deletable(project, project.data[0], False)


def test_a_data_set_that_cannot_be_read_is_an_error_after_the_list(tmp_path: Path) -> None:
    project = read(tmp_path, "[{path: /a, folder: deployer.yaml}, {name: b, path: /b, folder: b}]")
    with pytest.raises(DataError, match="is not a folder"):
        list_states(project)
    with pytest.raises(DataError), collect_refusals() as refusals:
        found = list(data_sets.list_places(project, refusals))
    assert [one.state for one in found] == [
        f"{tmp_path / 'deployer.yaml'} is not a folder",
        "missing",
    ]
