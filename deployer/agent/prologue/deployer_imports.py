"""Leaves word of what a run imports, so that the next runs find it imported."""

import atexit
import json
import os
import sys
from typing import Any, List

OURS = ("__main__", "sitecustomize", "usercustomize", "deployer_imports", "deployer_outputs")


def learn(path: str) -> None:
    """Write the list at the end of this process, unless there is one by then."""
    process = os.getpid()

    def write() -> None:
        # A fork of this process has its exit handlers, too.
        if os.getpid() != process or os.path.exists(path):
            return
        try:
            with open(f"{path}.{process}", "w", encoding="utf-8") as file:
                json.dump({"modules": list_modules()}, file)
            os.replace(f"{path}.{process}", path)
        except OSError:
            pass

    atexit.register(write)


def list_modules() -> List[str]:
    """Return the modules of installed packages and of Python itself, in the order of imports."""
    python = os.path.dirname(os.__file__) + os.sep
    found = [(name, find_origin(module)) for name, module in list(sys.modules.items())]
    return [
        name
        for name, origin in found
        if name not in OURS and (is_installed(origin) or origin.startswith(python))
    ]


def find_origin(module: Any) -> str:
    """Return the file that a module is from, empty if it is from none."""
    spec = getattr(module, "__spec__", None)
    return str(getattr(spec, "origin", None) or "")


def is_installed(origin: str) -> bool:
    """Tell whether a file is of an installed package: the project's own may change at any time."""
    return "/site-packages/" in origin or "/dist-packages/" in origin
