"""The cloud as a fixture: an empty project for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gke.cloud import Cloud, serve_cloud


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """Serve a cloud, and lead this process's clients and all that it starts to it."""
    folder = tmp_path / "cloud"
    folder.mkdir()
    with serve_cloud(folder) as served:
        for name, value in served.environment().items():
            monkeypatch.setenv(name, value)
        yield served
