"""Reads once what every run reads again: the metadata of all installed packages.

`wandb.init` records names and versions, for which Python parses each package's whole description.
What is kept is that of the folders whose changes the parent sees; all else is read as ever.
"""

import sys
from typing import Any, Dict, Sequence


def keep_metadata(folders: Sequence[str]) -> None:
    """Have `importlib.metadata` know the packages in these folders from now on, if it is used."""
    metadata: Any = sys.modules.get("importlib.metadata")
    paths: Any = getattr(metadata, "PathDistribution", None)
    inherited: Any = getattr(paths, "metadata", None)
    read = getattr(inherited, "fget", None)
    if not read:
        return
    kept: Dict[str, Any] = {}
    for package in metadata.distributions(path=list(folders)):
        try:
            kept[str(package._path)] = package.metadata
        except Exception:
            continue  # of a damaged one, each run gets the error itself

    def get_metadata(package: Any) -> Any:
        found = kept.get(str(package._path))
        return read(package) if found is None else found

    paths.metadata = property(get_metadata, doc=inherited.__doc__)
