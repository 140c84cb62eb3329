"""Static analysis of a script's text, and the names that it can log; nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployer.errors import Finding
from deployer.sweeps.keys import doubt, nearest

MOST_MODULES = 500
LONGEST_NAME = 255  # bytes of a file name, the limit of every common file system
PYTHON_FILE = re.compile(r"[\w./-]+\.py\b")
# In the spelling of `ast.unparse`.
OFFLINE = re.compile(
    r"(os\.)?environ\['WANDB_(MODE|DISABLED)'\] = '(offline|dryrun|disabled|true|1)'\Z"
    r"|(wandb\.)?(init|Settings)\(.*\bmode='(offline|dryrun|disabled)'[,)]",
    re.DOTALL | re.IGNORECASE,
)
OTHER_PROJECT = re.compile(r"(os\.)?environ\['WANDB_(PROJECT|ENTITY)'\] = ")
# Other names for W&B and its runs, and text that must not follow when a configuration is read.
RUN = re.compile(r"import wandb as (\w+)|([\w.]+) = \w+\.init\(|\binit\(.*\) as (\w+)")
UNWRITTEN = r"(?! = |\.(update|setdefaults)\(|\.\w+ = |\[[^]]*\] = )"
PYTHON = re.compile(r"(.*/)?(python|pypy)[0-9.]*")
# These log under names of their own.
LOGGING_PACKAGES = frozenset(
    (
        *(
            "lightning",
            "pytorch_lightning",
            "keras",
            "tensorflow",
            "transformers",
            "trl",
            "accelerate",
        ),
        *("composer", "ultralytics", "xgboost", "lightgbm", "catboost", "fastai", "ignite"),
        *("stable_baselines3", "tensorboard", "tensorboardX", "sb3_contrib", "skorch", "ray"),
    )
)
MATHEMATICS = frozenset(
    ("math", "cmath", "np", "numpy", "torch", "jnp", "tf", "F", "scipy", "mpmath")
)
LOGGERS = frozenset(("logging", "logger", "_logger", "LOGGER", "log"))


@dataclass(frozen=True)
class SourceModule:
    """A file of the project; `tree` is None if this Python cannot parse it."""

    path: Path
    tree: ast.Module | None

    @property
    def imports(self) -> frozenset[str]:
        return frozenset(name.partition(".")[0] for name, _ in list_imports(self) if name)


def find_entry(words: Sequence[str], folder: Path) -> tuple[str, Path | None]:
    """Return a command's script as the user names it, and its file if the folder has it."""
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        if len(word) > LONGEST_NAME:  # a program's text, or JSON
            continue
        file = folder / word
        if before in ("-m", "--module") and PYTHON.fullmatch(words[max(index - 2, 0)]) is None:
            return f"-m {word}", find_module_file(word, folder)
        if before == "-m" and not word.startswith(("torch.", "accelerate.")):
            return f"-m {word}", find_module_file(word, folder)
        if word.endswith(".py"):
            return word, file if file.is_file() else None
        if (file / "__main__.py").is_file() and PYTHON.fullmatch(before):
            return word, file / "__main__.py"
        if word.endswith(".sh") and file.is_file():
            found = PYTHON_FILE.search(file.read_text(encoding="utf-8", errors="replace"))
            if found and (folder / found[0]).is_file():
                return found[0], folder / found[0]
    return " ".join(words[1:2]), None


def find_module_file(name: str, folder: Path) -> Path | None:
    base = folder / Path(*name.split("."))
    files = (base / "__main__.py", base.with_name(base.name + ".py"))
    return next((file for file in files if file.is_file()), None)


def list_project_modules(entry: Path, folder: Path) -> list[SourceModule]:
    """Return a script and the project's modules that it imports, directly or indirectly."""
    found: dict[Path, SourceModule] = {}
    waiting = [entry]
    while waiting and len(found) < MOST_MODULES:
        path = waiting.pop().resolve()
        if path in found:
            continue
        found[path] = module = _read(path)
        for name, level in list_imports(module):
            bases = path.parents[level - 1 : level] if level else (entry.resolve().parent, folder)
            waiting += [file for base in bases for file in _find(base, name)]
    return list(found.values())


def list_imports(module: SourceModule) -> Iterator[tuple[str, int]]:
    """Yield (dotted name, level) of every possible module; level counts leading dots."""
    for node in ast.walk(module.tree) if module.tree else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level
            for alias in node.names:
                yield ".".join(part for part in (node.module, alias.name) if part), node.level


def find_line(module: SourceModule, pattern: re.Pattern[str]) -> int:
    """Return the line of an assignment or a call that a script always reaches; 0 if none."""
    waiting: list[ast.AST] = [module.tree] if module.tree else []
    for node in waiting:
        if isinstance(node, ast.Assign | ast.Call) and pattern.match(ast.unparse(node)):
            return node.lineno
        if not isinstance(node, ast.If) or "__name__" in ast.unparse(node.test):
            waiting += ast.iter_child_nodes(node)
    return 0


def reads_config(modules: Sequence[SourceModule]) -> bool:
    for text in [ast.unparse(module.tree) for module in modules if module.tree]:
        names = [re.escape(name) for found in RUN.findall(text) for name in found if name]
        owner = "|".join([r"wandb|run|experiment|init\(.*\)", *names])
        if re.search(rf"(?<!\w)({owner})\.config\b{UNWRITTEN}", text):
            return True
    return False


def _find(base: Path, name: str) -> list[Path]:
    """Return the files that run when a name is imported, including parent packages."""
    parts = name.split(".") if name else []
    files = [base.joinpath(*parts[:n], "__init__.py") for n in range(1, len(parts) + 1)]
    files += [base.joinpath(*parts[:-1], f"{parts[-1]}.py")] if parts else [base / "__init__.py"]
    return [file for file in files if file.is_file() and "site-packages" not in file.parts]


def _read(path: Path) -> SourceModule:
    try:
        return SourceModule(path, ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return SourceModule(path, None)


@dataclass(frozen=True)
class Logged:
    """Names that are literals; `open` if others may be logged too."""

    names: frozenset[str]
    open: bool


def check_metric(config: Mapping[str, Any], logged: Logged, script: str) -> Iterator[Finding]:
    """Warn about a metric that no `log` call could write."""
    metric = config.get("metric")
    name = metric.get("name") if isinstance(metric, Mapping) else None
    if not isinstance(name, str) or logged.open or name in logged.names:
        return
    message = f"{script} does not log {name}"
    yield doubt(("metric", "name"), message, nearest(name, sorted(logged.names)))


def find_logged(modules: Sequence[SourceModule]) -> Logged:
    """Return the names passed to `log` and `summary` in a script and the project's modules."""
    names: set[str] = set()
    unsure = False
    for module in modules:
        if module.tree is None or module.imports & LOGGING_PACKAGES:
            return Logged(frozenset(), True)
        for found in _read_module(module.tree):
            if found is None:
                unsure = True
            else:
                names.add(found)
    return Logged(frozenset(names), unsure or not names)


def _read_module(tree: ast.Module) -> Iterator[str | None]:
    mappings = _find_mappings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _last_name(node.func)
            base = _last_name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            if name == "log" and base not in MATHEMATICS and base not in LOGGERS:
                given = node.args[0] if node.args else next((k.value for k in node.keywords), None)
                yield from _read_mapping(given, mappings)
            elif name == "define_metric":
                yield from _read_definition(node)
            elif name == "update" and base == "summary":
                yield from _read_mapping(node.args[0] if node.args else None, mappings)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if _last_name(node.value) == "summary":
                yield _constant(node.slice)
        elif _is_integration(node):
            yield None


def _is_integration(node: ast.AST) -> bool:
    """Return True if it names an integration that logs, such as WandbLogger or report_to=."""
    if isinstance(node, ast.keyword):
        return node.arg in ("report_to", "sync_tensorboard")
    if isinstance(node, ast.alias):
        return "Wandb" in node.name
    return isinstance(node, ast.Name | ast.Attribute) and "Wandb" in _last_name(node)


def _read_definition(call: ast.Call) -> Iterator[str | None]:
    """Yield the summary keys of a metric: `loss.min` for define_metric("loss", summary="min")."""
    given = {one.arg: one.value for one in call.keywords}
    if "summary" not in given:
        return
    metric = call.args[0] if call.args else given.get("name")
    name, kinds = _constant(metric) if metric else None, _constant(given["summary"])
    if name is None or "*" in name or kinds is None:
        yield None
        return
    yield from (f"{name}.{kind.strip()}" for kind in kinds.split(","))


def _read_mapping(
    node: ast.expr | None, mappings: dict[str, list[str] | None]
) -> Iterator[str | None]:
    if isinstance(node, ast.Dict):
        yield from _list_keys(node)
    elif isinstance(node, ast.Name) and mappings.get(node.id):
        yield from mappings[node.id] or ()
    else:
        yield None


def _list_keys(node: ast.Dict, above: str = "") -> Iterator[str | None]:
    for key, value in zip(node.keys, node.values, strict=True):
        name = _constant(key) if key is not None else None
        if name is None:
            yield None
            continue
        yield above + name
        if isinstance(value, ast.Dict):
            yield from _list_keys(value, f"{above}{name}.")


def _find_mappings(tree: ast.Module) -> dict[str, list[str] | None]:
    """Return the keys of each variable that is only ever a mapping with literal keys."""
    found: dict[str, list[str] | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _note(found, target, node.value)
        elif isinstance(node, ast.arg):
            found[node.arg] = None
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            _note(found, node.target, getattr(node, "value", None))
        elif isinstance(node, ast.Attribute) and node.attr in ("update", "setdefault"):
            found[_last_name(node.value)] = None
    return found


def _note(found: dict[str, list[str] | None], target: ast.expr, value: ast.expr | None) -> None:
    if isinstance(target, ast.Subscript):
        name, keys = _last_name(target.value), [_constant(target.slice)]
    elif isinstance(target, ast.Name):
        name, keys = target.id, list(_list_keys(value)) if isinstance(value, ast.Dict) else [None]
    else:
        return
    known = found.get(name, [])
    written = [key for key in keys if key is not None]
    whole = known is not None and len(written) == len(keys)
    found[name] = [*(known or []), *written] if whole else None


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
