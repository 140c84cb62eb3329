"""Watches each Python process of a rehearsal; the interpreter imports it at its start."""

import os
import sys


def run_next() -> None:
    """Execute the sitecustomize module that this one hides, if there is one."""
    ours = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or ".") != ours]
    for finder in sys.meta_path:
        spec = finder.find_spec("sitecustomize", others)
        if spec and spec.loader:
            module = type(sys)("sitecustomize")
            module.__file__, module.__spec__ = spec.origin, spec
            spec.loader.exec_module(module)
            return


if os.environ.get("SCRIPT_REHEARSAL"):
    import deployer_parsers

    deployer_parsers.begin(os.environ["SCRIPT_REHEARSAL"])
run_next()
