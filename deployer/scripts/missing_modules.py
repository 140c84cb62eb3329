"""Hints for modules that the script's Python does not find."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# Packages with the name of their module, then module=package; other modules get no install command.
NAMED = """accelerate catboost click datasets einops evaluate gymnasium h5py jax joblib keras
lightgbm lightning matplotlib numba numpy omegaconf optuna pandas peft plotly polars psutil pydantic
pytorch_lightning requests rich safetensors scipy seaborn statsmodels sympy tensorboard tensorflow
timm tokenizers torch torchaudio torchmetrics torchvision tqdm transformers typer wandb xgboost
Bio=biopython Crypto=pycryptodome PIL=pillow absl=absl-py attr=attrs bs4=beautifulsoup4
community=python-louvain cv2=opencv-python dateutil=python-dateutil distutils=setuptools
dotenv=python-dotenv faiss=faiss-cpu git=gitpython hydra=hydra-core ignite=pytorch-ignite
imblearn=imbalanced-learn ml_collections=ml-collections pkg_resources=setuptools<82 serial=pyserial
skimage=scikit-image sklearn=scikit-learn skopt=scikit-optimize umap=umap-learn yaml=pyyaml"""
CHOOSE = "activate your script's environment, or local: {python: PATH} in deployer.yaml"
PACKAGES = {one.partition("=")[0]: one.partition("=")[2] or one for one in NAMED.split()}


def list_remedies(
    modules: Sequence[str], python: str, folder: Path, environment: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return hints, each with its modules; `folder` is the project's."""
    found: dict[str, list[str]] = {}
    for module in modules:
        found.setdefault(_find_remedy(module, folder, environment), []).append(module)
    if known := found.pop("", []):
        packages = shlex.join(PACKAGES[name] for name in known)
        found[format_install(python, packages, environment, _has_pip(python))] = known
    return found


def format_install(
    python: str, packages: str, environment: Mapping[str, str], has_pip: bool
) -> str:
    """Return the command that adds packages to a Python, even without pip.

    Packages added to the environment of a uv tool are lost at `uv tool upgrade`.
    """
    if Path(python).parent.with_name("uv-receipt.toml").is_file():
        return CHOOSE
    if not has_pip and shutil.which("uv", path=environment.get("PATH", os.defpath)):
        return f"uv pip install --python {python} {packages}"
    pip = f"{python} -m pip install {packages}"
    return pip if has_pip else f"{python} -m ensurepip && {pip}"


def _has_pip(python: str) -> bool:
    """Return True if a Python has pip, or does not answer."""
    try:
        ask = [python, "-c", "import pip"]
        return not subprocess.run(ask, capture_output=True, check=False, timeout=30).returncode
    except (OSError, subprocess.TimeoutExpired):
        return True


def _find_remedy(module: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Return the hint for one module, empty if a known package has it."""
    top, levels = module.partition(".")[0], ("", "*/", "*/*/")
    own = [one for level in levels for end in ("", ".py") for one in folder.glob(level + top + end)]
    code = [one for one in own if one.suffix or any((*one.glob("*.py"), *one.glob("*/*.py")))]
    if code and top != module:
        return f"{code[0].relative_to(folder)} has no {module}: fix the import, or add the file"
    if code:
        path = os.pathsep.join(filter(None, [str(code[0].parent), environment.get("PYTHONPATH")]))
        return f"it is in the project: export PYTHONPATH={shlex.quote(path)}"
    if top == "apex":
        return "NVIDIA's apex is built from its sources: https://github.com/NVIDIA/apex"
    known = top == module and top in PACKAGES and not own
    return "" if known else f"install the package that provides {module}"
