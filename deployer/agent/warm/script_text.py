"""Reads from a script's text which packages to preload for it, without executing anything."""

import ast
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

PRELOADED = ("wandb", "numpy", "torch", "torchvision")
MOST_FILES = 200
CHANGING = ("setdefault", "update", "pop", "clear", "putenv", "unsetenv")
LOADS_VARIABLES = "load_dotenv"
# Variables that none of these packages reads at its import, or only when it opens a device.
UNREAD = (
    *("CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "DEPLOYER_", "HF_"),
    *("HYDRA_", "MPLBACKEND", "PL_", "PYTHONHASHSEED", "TF_CPP_", "TOKENIZERS_", "TRANSFORMERS_"),
    "WANDB_",
)
READ_BY_WANDB = ("WANDB_DISABLE_CACHE", "WANDB_HTTP_TIMEOUT", "WANDB_INSECURE_DISABLE_SSL")
# The first optimizer imports it, which takes as long as `import torch`.
OPTIMIZERS, BY_OPTIMIZERS = "optim", "torch._dynamo"


class Reading(NamedTuple):
    """The packages to preload, in the script's order, or why its runs must start cold."""

    packages: Sequence[str]
    reason: str


def read_script(program: str, folder: str, more: Sequence[str]) -> Reading:
    """Read a script and the modules of its project; `more` are packages to preload besides.

    A change of the environment counts where it stands in the text, also inside a function.
    """
    script = os.path.join(folder, program)
    text = _Text(script, folder)
    text.read(script)
    text.end()
    if text.reason:
        return Reading((), text.reason)
    found = list(text.packages)
    if text.optimizes and "torch" in found:
        found.append(BY_OPTIMIZERS)
    found += [name for name in more if name not in found]
    return Reading(found, "" if found else f"{program} imports none of {', '.join(PRELOADED)}")


class _Text:
    """What a project's files do, in the order in which Python would execute them."""

    def __init__(self, script: str, folder: str) -> None:
        self.packages: Dict[str, None] = {}
        self.reason = ""
        self.optimizes = False
        self._script, self._folder = script, folder
        self._change = ""  # the first change of the environment so far
        self._late: List[str] = []  # imported inside functions of the script
        self._seen: Set[str] = set()

    def read(self, path: str) -> None:
        """Read one file, and those that it imports where it does."""
        if path in self._seen or len(self._seen) >= MOST_FILES:
            return
        self._seen.add(path)
        try:
            with open(path, "rb") as file:
                tree = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError, RecursionError):
            return
        self._visit(tree, path, False)

    def end(self) -> None:
        """Take the imports inside functions, which are executed last."""
        for name in self._late:
            self._take(name)

    def _visit(self, node: ast.AST, path: str, inner: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        change = find_change(node)
        if change is not None and not self._change:
            where = f"{os.path.relpath(path, self._folder)}:{getattr(node, 'lineno', 0)}"
            self._change = f"{where} sets {change or 'the environment'} before its imports"
        self.optimizes |= getattr(node, "attr", "") == OPTIMIZERS
        for level, name in list_imports(node):
            self._import(level, name, path, inner)
        inner = inner or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for child in ast.iter_child_nodes(node):
            self._visit(child, path, inner)

    def _import(self, level: int, name: str, path: str, inner: bool) -> None:
        above = os.path.join(os.path.dirname(path), *[os.pardir] * (level - 1))
        places = (above,) if level else (os.path.dirname(self._script), self._folder)
        files = find_files(name, places)
        for file in files:
            self.read(file)
        package = name.partition(".")[0]
        if files or level or package not in PRELOADED:
            return
        self.optimizes |= name.startswith(f"torch.{OPTIMIZERS}")
        if not inner:
            self._take(package)
        elif path == self._script:  # a function of another module may never be called
            self._late.append(package)

    def _take(self, package: str) -> None:
        self.reason = self.reason or self._change
        self.packages[package] = None


def list_imports(node: ast.AST) -> Iterator[Tuple[int, str]]:
    """Yield what a statement imports: how many dots stand before its name, and the name."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield 0, alias.name
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield node.level, ".".join(filter(None, (node.module, alias.name)))


def find_files(name: str, places: Sequence[str]) -> List[str]:
    """Return the project's files that are executed when a module is imported."""
    words = name.split(".")
    for place in places:
        stems = [os.path.join(place, *words[:end]) for end in range(1, len(words) + 1)]
        paths = [path for stem in stems for path in (f"{stem}.py", f"{stem}{os.sep}__init__.py")]
        found = [os.path.normpath(path) for path in paths if os.path.isfile(path)]
        if found:
            return found
    return []


def find_change(node: ast.AST) -> Optional[str]:
    """Return the variable that a node sets or removes: empty if unknown, None if there is none.

    Variables that no preloaded package reads at its import do not count.
    """
    keys: List[Any] = []
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        if _get_name(node.value) == "environ":
            keys = [getattr(node.slice, "value", "")]
    elif isinstance(node, ast.AugAssign) and _get_name(node.target) == "environ":
        keys = getattr(node.value, "keys", [""])
    elif isinstance(node, ast.Call) and _get_name(node.func) == LOADS_VARIABLES:
        keys = [""]
    elif isinstance(node, ast.Call) and _get_name(node.func) in CHANGING:
        owner = _get_name(getattr(node.func, "value", node))
        first: Any = node.args[0] if node.args and not node.keywords else ""
        keys = getattr(first, "keys", [first]) if owner in ("environ", "os") else []
    # Python 3.8 wraps the key of a subscript once more.
    names = [str(getattr(key, "value", getattr(key, "s", key))) for key in keys]
    names = [name if name.isidentifier() else "" for name in names]
    read = [n for n in names if not n.startswith(UNREAD) or n.startswith(READ_BY_WANDB)]
    return read[0] if read else None


def _get_name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))
