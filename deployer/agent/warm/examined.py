"""Names the packages that a parent imports for all runs; each run imports all others for itself.

They are torch, numpy and the SDK, with what they import: what takes time in nearly every run, and
what is compared with a cold start. Any other package may do at its import what is true of one
process alone.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Container

# fmt: off
EXAMINED = frozenset((
    "PIL", "_yaml", "annotated_types", "anyio", "certifi", "charset_normalizer", "click", "cuda",
    "cwsandbox", "defusedxml", "distro", "docker_pycreds", "eval_type_backport", "filelock",
    "fsspec", "functorch", "git", "gitdb", "google._upb", "google.protobuf", "h11", "httpcore",
    "httpx", "idna", "jinja2", "markupsafe", "mpmath", "networkx", "numpy", "nvidia",
    "opentelemetry", "packaging", "platformdirs", "psutil", "pydantic", "pydantic_core",
    "requests", "sentry_sdk", "setproctitle", "smmap", "sniffio", "sympy", "torch", "torchgen",
    "torchvision", "tqdm", "triton", "typing_extensions", "typing_inspection", "urllib3", "wandb",
    "xxhash", "yaml",
))
# fmt: on
COMPILED_ENDING = "__mypyc"  # of a module without a package's name, by which one keeps its own


def is_examined(name: str, packages: "Container[str]") -> bool:
    """Tell whether a module is in one of these packages."""
    words = name.split(".")
    within = (".".join(words[:end]) in packages for end in range(1, len(words) + 1))
    return any(within) or name.endswith(COMPILED_ENDING)


def is_found(name: str) -> bool:
    """Tell whether there is such a module, as far as can be told without an import."""
    package = name.rpartition(".")[0]
    path = getattr(sys.modules.get(package), "__path__", None) if package else None
    unknown = bool(package) and path is None
    return unknown or any(finder.find_spec(name, path) for finder in sys.meta_path)
