"""Starts the loader in its pod, as its environment says, until it is told to end."""

import os
import signal
import sys

from .handler import LoaderServer
from .tree import Tree

ROOT_VARIABLE = "LOADER_ROOT"
PORT_VARIABLE = "LOADER_PORT"
TOKEN_HASH_VARIABLE = "LOADER_TOKEN_HASH"


def main() -> int:
    """Serve; returns what was wrong with the environment as an exit code."""
    # Process 1 of a container ignores what it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    root = os.environ.get(ROOT_VARIABLE, "")
    try:
        os.makedirs(root, exist_ok=True)
    except OSError as error:
        sys.stderr.write(f"ended with exit code 78: {root}: {error.strerror}\n")
        return 78
    if not os.access(root, os.R_OK | os.X_OK):
        sys.stderr.write(f"ended with exit code 78: user {os.getuid()} may not read {root!r}\n")
        return 78
    tree = Tree(root)
    port = int(os.environ[PORT_VARIABLE])
    with LoaderServer(tree, os.environ[TOKEN_HASH_VARIABLE], port) as server:
        server.serve_forever()
    return 0
