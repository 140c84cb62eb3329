"""Builds, pushes and finds an image, and checks that its PyTorch supports a GPU."""

from __future__ import annotations

import logging
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deployer.config.document import FILE_NAME
from deployer.config.image import ImageConfig
from deployer.config.image_reference import (
    Repository,
    parse_repository,
)
from deployer.errors import ConfigError, ImageError
from deployer.images.builders import (
    Build,
    Builder,
    LoginFiles,
    choose_builder,
    open_scratch,
    remove_abandoned,
)
from deployer.images.code import GIT_SECONDS
from deployer.images.context import Inputs, copy_context, read_inputs, warn_about_context
from deployer.images.registry import ImageManifest, Registry, find_credentials, write_auth_file
from deployer.text import format_bytes
from deployer.waiting import run_program

ARCHITECTURES_LABEL = "dev.deployer.cuda-architectures"
VARIANT_LABEL = "dev.deployer.variant"
OLDER = "image: {variant: cuda12} in deployer.yaml"
# https://developer.nvidia.com/cuda-gpus; major and minor number. Other GPUs are not checked.
CAPABILITIES = {
    "K80": (3, 7),
    "M60": (5, 2),
    "P100": (6, 0),
    "P4": (6, 1),
    "P40": (6, 1),
    "V100S?": (7, 0),
    "T4": (7, 5),
    "A100": (8, 0),
    "A30": (8, 0),
    "A10G?": (8, 6),
    "A40": (8, 6),
    "A16": (8, 6),
    "L4": (8, 9),
    "L40S?": (8, 9),
    "G?H100": (9, 0),
    "G?H200": (9, 0),
    "G?B200": (10, 0),
}
_LABEL = re.compile(rf'\b({re.escape(ARCHITECTURES_LABEL)}[.\w]*)="([^"]*)"')
_DEFAULT = re.compile(r"^ARG VARIANT=(\w+)", re.MULTILINE)
_ARCHITECTURE = re.compile(r"(sm|compute)_([0-9]+)([0-9])[af]?")
LOG = logging.getLogger(__name__)
INPUTS_LABEL = "org.opencontainers.image.version"  # the hash of the inputs, which is also the tag
CA = "DEPLOYER_REGISTRY_CA"
# The package index settings that build tools read; they may contain a password.
INDEX_VARIABLES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST"),
    *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"),
)
AUTHORITIES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")


# Whether an image's PyTorch has kernels for a GPU: a label of the image, a table of GPUs; pure. The
# label holds the output of `torch.cuda.get_arch_list()`, such as `sm_75 sm_80`.


def explain_mismatch(architectures: str, gpu: str) -> str:
    """Return a sentence if the image's PyTorch cannot run on the GPU; empty if unknown or fine.

    `architectures` is the label's value; `gpu` is the GPU's name in Google's, NVIDIA's or a node
    label's spelling: nvidia-tesla-v100, Tesla V100-SXM2-16GB, Tesla-V100-SXM2-16GB.
    """
    capability = find_capability(gpu)
    found = [(k, (int(a), int(b))) for k, a, b in _ARCHITECTURE.findall(architectures)]
    if capability is None or not found:
        return ""
    for kind, built in found:
        same = built[0] == capability[0] or kind == "compute"  # the driver compiles it
        if same and built <= capability:
            return ""
    return (
        f"the image's PyTorch has no kernels for {gpu} (sm_{capability[0]}{capability[1]}): "
        f"it has {architectures}"
    )


def find_capability(gpu: str) -> tuple[int, int] | None:
    for name, capability in CAPABILITIES.items():
        if re.search(rf"(?<![A-Z0-9]){name}(?![A-Z0-9])", gpu.upper()):
            return capability
    return None


def read_architectures(labels: Mapping[str, str]) -> str:
    """Return the architectures of an image; empty if its labels do not name any.

    An image with variants has a label for each, and one that names its own.
    """
    variant = labels.get(VARIANT_LABEL, "")
    return labels.get(ARCHITECTURES_LABEL) or labels.get(f"{ARCHITECTURES_LABEL}.{variant}", "")


def predict_labels(dockerfile: str, arguments: Mapping[str, str]) -> dict[str, str]:
    default = _DEFAULT.search(dockerfile)
    variant = arguments.get("VARIANT") or (default[1] if default else "")
    found = dict(_LABEL.findall(dockerfile))
    return {**found, VARIANT_LABEL: variant}


def build_image(
    settings: ImageConfig, folder: Path, environment: Mapping[str, str]
) -> tuple[str, Builder]:
    """Return the image of a project, and the tool that has it; build it if needed.

    Its tag is the hash of its inputs. Raises ConfigError, ImageError.
    """
    inputs = read_inputs(settings, folder)
    builder = choose_builder(settings.builder, environment)
    reference = f"{settings.repository or _name_after(folder)}:{inputs.tag}"
    _build(settings, inputs, reference, builder)
    return reference, builder


def push_image(
    settings: ImageConfig,
    folder: Path,
    environment: Mapping[str, str],
    *,
    rebuild: bool = False,
) -> str:
    """Return `repository@sha256:…` of the project's image in the registry.

    Builds and pushes it unless the registry has it; with `rebuild` always, on the newest base.
    Raises ConfigError, CloudError, and ImageError, also if another image has its name.
    """
    remove_abandoned()
    inputs = read_inputs(settings, folder)
    registry = open_registry(settings, environment)
    reference = f"{registry.repository}:{inputs.tag}"
    if not rebuild and (there := registry.get_manifest(inputs.tag)):
        _check_ours(registry, there, inputs.tag)
        LOG.info(f"{reference}: already in the registry")
        return f"{registry.repository}@{there.digest}"
    builder = choose_builder(settings.builder, environment)
    registry.check_push()
    _build(settings, inputs, reference, builder, rebuild=rebuild)
    began = time.monotonic()
    LOG.info(f"pushing {reference}")
    with _log_in(settings, registry.repository, environment) as login:
        builder.push(reference, login, registry.repository.host)
    pushed = registry.get_manifest(inputs.tag)
    if pushed is None:
        raise ImageError(f"{reference} was pushed, but the registry does not have it", "push again")
    size = format_bytes(pushed.size_bytes)
    LOG.info(f"pushed {reference}: {size} in the registry, {time.monotonic() - began:.0f} s")
    return f"{registry.repository}@{pushed.digest}"


def find_pushed(settings: ImageConfig, folder: Path, environment: Mapping[str, str]) -> str | None:
    """Return `repository@sha256:…` if the registry has the image of the current folder."""
    inputs = read_inputs(settings, folder)
    registry = open_registry(settings, environment)
    there = registry.get_manifest(inputs.tag)
    if there is None:
        return None
    _check_ours(registry, there, inputs.tag)
    return f"{registry.repository}@{there.digest}"


def predict_image_labels(settings: ImageConfig, folder: Path) -> Mapping[str, str]:
    """Return the image labels that the Dockerfile of `image:` sets; contacts nothing."""
    path = folder / settings.dockerfile
    if not settings.repository or not path.is_file():
        return {}
    return predict_labels(path.read_text(encoding="utf-8"), settings.arguments)


def _check_ours(registry: Registry, there: ImageManifest, tag: str) -> None:
    """Raise ImageError for an image with other inputs."""
    if registry.get_labels(there).get(INPUTS_LABEL) != tag:
        raise ImageError(
            f"{registry.repository}:{tag} in the registry is not ours: it lacks the label "
            f"{INPUTS_LABEL}={tag}",
            "deployer image push --rebuild replaces it; `repository:` sets another",
        )


def _is_current(inputs: Inputs, reference: str, builder: Builder) -> bool:
    if not builder.has_image(reference):
        return False
    ours = builder.get_labels(reference).get(INPUTS_LABEL) == inputs.tag
    if not ours:
        LOG.info(f"{reference} exists and is not ours: building it again")
    return ours


def _build(
    settings: ImageConfig,
    inputs: Inputs,
    reference: str,
    builder: Builder,
    *,
    rebuild: bool = False,
) -> None:
    if not rebuild and _is_current(inputs, reference, builder):
        LOG.info(f"{reference}: already built")
        return
    if warning := warn_about_context(inputs):
        LOG.warning(warning)
    LOG.info(f"building {reference} with {builder.name} from {len(inputs.files)} files")
    began = time.monotonic()
    with open_scratch() as scratch:
        context = scratch / "context"
        context.mkdir()
        copy_context(inputs, context)
        build = Build(
            reference,
            inputs.dockerfile.resolve(),
            context,
            settings.platform,
            settings.arguments,
            _list_labels(inputs, reference),
            _write_secrets(inputs.dockerfile, scratch, builder.environment),
            anew=rebuild,
        )
        builder.build(build)
    seconds, size = time.monotonic() - began, builder.get_size(reference)
    LOG.info(f"built {reference}: {format_bytes(size)}, {seconds:.0f} s")


def _name_after(folder: Path) -> str:
    return f"localhost/{re.sub('[^a-z0-9]+', '-', folder.resolve().name.lower()).strip('-')}"


def _list_labels(inputs: Inputs, reference: str) -> dict[str, str]:
    labels = {INPUTS_LABEL: inputs.tag, "org.opencontainers.image.ref.name": reference}
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = run_program(asked, GIT_SECONDS, "`git describe`", cwd=inputs.context)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return labels
    if done.returncode == 0:
        labels["org.opencontainers.image.revision"] = done.stdout.decode().strip()
    return labels


def _write_secrets(
    dockerfile: Path, scratch: Path, environment: Mapping[str, str]
) -> dict[str, Path]:
    """Write this machine's package index settings, for a Dockerfile that mounts them."""
    if "--mount=type=secret" not in dockerfile.read_text(encoding="utf-8"):
        return {}
    secrets: dict[str, Path] = {}
    given = {name: environment[name] for name in INDEX_VARIABLES if environment.get(name)}
    if given:
        secrets["index"] = scratch / "index"
        secrets["index"].touch(0o600)
        lines = (f"export {name}={shlex.quote(value)}\n" for name, value in given.items())
        secrets["index"].write_text("".join(lines))
    authority = next((environment[name] for name in AUTHORITIES if environment.get(name)), "")
    if authority:
        secrets["ca"] = Path(authority)
    return secrets


def open_registry(settings: ImageConfig, environment: Mapping[str, str]) -> Registry:
    """Return the client of the image's registry. Raises ConfigError, ImageError, CloudError."""
    repository = parse_repository(settings.require_repository())
    credentials = find_credentials(repository, environment)
    return Registry(repository, credentials, find_ca(settings, environment), settings.plain_http)


def find_ca(settings: ImageConfig, environment: Mapping[str, str]) -> str:
    """Return the file of the registry's custom CA; empty if it has none."""
    named = environment.get(CA) or settings.ca
    if not named:
        return ""
    path = Path(named).expanduser().resolve()
    if not path.is_file():
        place = CA if environment.get(CA) else f"{FILE_NAME}: image.ca"
        raise ConfigError(place, f"{path} not found", "name the authority's PEM file")
    return str(path)


@contextmanager
def _log_in(
    settings: ImageConfig, repository: Repository, environment: Mapping[str, str]
) -> Iterator[LoginFiles]:
    """Give a tool the files it needs to push, and remove them afterwards."""
    credentials = find_credentials(repository, environment)
    authority = find_ca(settings, environment)
    with ExitStack() as stack:
        folder = ca_folder = None
        if credentials:
            folder = stack.enter_context(write_auth_file(credentials, repository.host, environment))
        if authority:
            ca_folder = stack.enter_context(open_scratch())
            (ca_folder / "ca.crt").symlink_to(authority)
        yield LoginFiles(folder, ca_folder, settings.plain_http)
