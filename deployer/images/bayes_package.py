"""What `method: bayes` needs of the embedded backend's image, and the program that checks it."""

from __future__ import annotations

from deployer.errors import ImageError

# It is compiled, so the backend's archive cannot bring it along.
PACKAGE = "scikit-learn"
LACKING = 69  # the exit code of `ASK` without it
ASK = f"""
import importlib.util, sys
sys.exit(0 if importlib.util.find_spec("sklearn") else {LACKING})
"""


def build_question(python: str) -> list[str]:
    """Return the command that asks an image; pure."""
    return [python, "-c", ASK]


def has_package(image: str, exit_code: int | None) -> bool:
    """Return True if the program found the package, False if it did not run there.

    Raises ImageError if the image lacks it.
    """
    if exit_code == LACKING:
        said = f"method bayes needs {PACKAGE} in the embedded backend's image, {image}"
        line = f"RUN pip install --no-cache-dir {PACKAGE}"
        other = "name an image that has it: backend: {image: …} in deployer.yaml"
        raise ImageError(said, f"add `{line}` to its Dockerfile; or {other}")
    return exit_code == 0
