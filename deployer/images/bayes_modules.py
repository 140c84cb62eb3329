"""What `method: bayes` needs of the embedded backend's image, and the program that asks it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from deployer.errors import ImageError

LACKING = 69  # the exit code of `ASK` if something is missing
ASK = f"""
import importlib.util, sys
lacking = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
sys.stderr.write(" ".join(lacking) + "\\n")
sys.exit({LACKING} if lacking else 0)
"""


def list_modules() -> tuple[str, ...]:
    """Return the modules that the backend's archive does not bring along."""
    return ("torch", "scipy", *(() if find_spec("optuna") else ("optuna",)))


def build_question(python: str) -> list[str]:
    """Return the command that asks an image; pure but for what is installed here."""
    return [python, "-c", ASK, *list_modules()]


def has_modules(image: str, exit_code: int | None, said: str) -> bool:
    """Return True if the program found all modules in an image, False if it did not run there.

    Raises ImageError, naming what is missing: the modules in what was said, where the tool that ran
    the program may have added words of its own.
    """
    if exit_code == LACKING:
        words = said.split()
        raise build_refusal(image, [name for name in list_modules() if name in words])
    return exit_code == 0


def build_refusal(image: str, missing: Sequence[str]) -> ImageError:
    """Return the error of an image that lacks modules; pure."""
    said = f"method bayes needs {', '.join(missing)} in the embedded backend's image, {image}"
    line = f"RUN pip install --no-cache-dir {' '.join(missing)}"
    other = "name an image that has them: backend: {image: …} in deployer.yaml"
    return ImageError(said, f"add `{line}` to its Dockerfile; or {other}")
