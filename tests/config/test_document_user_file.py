"""What is refused as a file before anything of it is parsed, whoever names it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deployer.config.document import MOST_BYTES, read_document, read_user_text
from deployer.errors import ConfigError
from deployer.gke.pricing import load_prices
from deployer.gke.specification import load_spec
from deployer.sweeps.set_files import load_sets
from deployer.sweeps.sweep_file import load_sweep

READERS: dict[str, Callable[[Path], object]] = {
    "sweep.yaml": load_sweep,
    "sets.csv": load_sets,
    "deployer.yaml": lambda path: read_document(path.parent),
    "cluster.yaml": lambda path: load_spec(path.name, path.parent),
    "gke-prices.yaml": lambda path: load_prices(path.parent),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_without_a_writer_is_refused_by_every_reader(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigError, match=f"{name}: is a named pipe, not a file") as caught:
        READERS[name](tmp_path / name)
    assert caught.value.hint == "name a regular file"


@pytest.mark.parametrize("name", READERS)
def test_more_than_five_megabytes_are_refused_by_every_reader(name: str, tmp_path: Path) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ConfigError, match=f"{name}: is larger than 5 MB") as caught:
        READERS[name](tmp_path / name)
    assert caught.value.hint == "name a smaller file, or split this one"


def test_sockets_and_devices_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(ConfigError, match="is a socket, not a file"):
            read_user_text(tmp_path / "s")
    with pytest.raises(ConfigError, match="/dev/zero: is a device, not a file"):
        read_user_text(Path("/dev/zero"))


def test_what_a_shell_pipes_in_is_read() -> None:
    program = "from deployer.config.document import *; print(read_user_text(Path('/dev/stdin')))"
    asked = [sys.executable, "-c", program]
    done = subprocess.run(asked, input="a: 1", capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("a: 1\n", "")
