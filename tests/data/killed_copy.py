"""`python -m tests.data.killed_copy SOURCE TARGET BYTES [ENDPOINT]`: dies after so many bytes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from deployer.data.copy import Silence, copy
from deployer.data.folder_store import FolderStore
from deployer.data.s3_store import ObjectStore
from deployer.data.store import Store


class Death(Silence):
    """Kill this process, as `kill -9` does, when so many bytes were written."""

    def __init__(self, after_bytes: int) -> None:
        self._left = after_bytes

    def advance(self, size_bytes: int) -> None:
        self._left -= size_bytes
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    source, target, after_bytes, *endpoint = sys.argv[1:]
    to: Store = ObjectStore(target, endpoint[0]) if endpoint else FolderStore(Path(target))
    copy(FolderStore(Path(source)), to, Death(int(after_bytes)))
