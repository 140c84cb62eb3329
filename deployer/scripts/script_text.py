"""What the text of a script and of the project's modules shows; nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_MODULES = 500
LONGEST_NAME = 255  # bytes of a file name, on every file system that we know
PYTHON_FILE = re.compile(r"[\w./-]+\.py\b")
# As `ast.unparse` writes it.
OFFLINE = re.compile(
    r"(os\.)?environ\['WANDB_(MODE|DISABLED)'\] = '(offline|dryrun|disabled|true|1)'\Z"
    r"|(wandb\.)?(init|Settings)\(.*\bmode='(offline|dryrun|disabled)'[,)]",
    re.DOTALL | re.IGNORECASE,
)
OTHER_PROJECT = re.compile(r"(os\.)?environ\['WANDB_(PROJECT|ENTITY)'\] = ")
# Other names of W&B and its runs, and what does not follow where a configuration is read.
RUN = re.compile(r"import wandb as (\w+)|([\w.]+) = \w+\.init\(|\binit\(.*\) as (\w+)")
UNWRITTEN = r"(?! = |\.(update|setdefaults)\(|\.\w+ = |\[[^]]*\] = )"
PYTHON = re.compile(r"(.*/)?(python|pypy)[0-9.]*")


@dataclass(frozen=True)
class Module:
    """A file of the project; `tree` is None where this Python cannot read it."""

    path: Path
    tree: ast.Module | None

    @property
    def imports(self) -> frozenset[str]:
        """Return the top names of what it imports."""
        return frozenset(name.partition(".")[0] for name, _ in list_imports(self) if name)


def find_entry(words: Sequence[str], folder: Path) -> tuple[str, Path | None]:
    """Return the script of a command as a person names it, and its file if the folder has it."""
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
    """Return the file that `-m NAME` runs, if the folder has it."""
    base = folder / Path(*name.split("."))
    files = (base / "__main__.py", base.with_name(base.name + ".py"))
    return next((file for file in files if file.is_file()), None)


def list_project_modules(entry: Path, folder: Path) -> list[Module]:
    """Return a script and the project's modules that it imports, itself or through others."""
    found: dict[Path, Module] = {}
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


def list_imports(module: Module) -> Iterator[tuple[str, int]]:
    """Yield (dotted name, level) of everything that may be a module; level counts leading dots."""
    for node in ast.walk(module.tree) if module.tree else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level
            for alias in node.names:
                yield ".".join(part for part in (node.module, alias.name) if part), node.level


def find_line(module: Module, pattern: re.Pattern[str]) -> int:
    """Return the line of an assignment or a call that a script always comes to, 0 without one."""
    waiting: list[ast.AST] = [module.tree] if module.tree else []
    for node in waiting:
        if isinstance(node, ast.Assign | ast.Call) and pattern.match(ast.unparse(node)):
            return node.lineno
        if not isinstance(node, ast.If) or "__name__" in ast.unparse(node.test):
            waiting += ast.iter_child_nodes(node)
    return 0


def reads_config(modules: Sequence[Module]) -> bool:
    """Return True if a module reads the values of its run from `wandb.config`."""
    for text in [ast.unparse(module.tree) for module in modules if module.tree]:
        names = [re.escape(name) for found in RUN.findall(text) for name in found if name]
        owner = "|".join([r"wandb|run|experiment|init\(.*\)", *names])
        if re.search(rf"(?<!\w)({owner})\.config\b{UNWRITTEN}", text):
            return True
    return False


def _find(base: Path, name: str) -> list[Path]:
    """Return the files that are run when a name is imported: packages above it, too."""
    parts = name.split(".") if name else []
    files = [base.joinpath(*parts[:n], "__init__.py") for n in range(1, len(parts) + 1)]
    files += [base.joinpath(*parts[:-1], f"{parts[-1]}.py")] if parts else [base / "__init__.py"]
    return [file for file in files if file.is_file() and "site-packages" not in file.parts]


def _read(path: Path) -> Module:
    try:
        return Module(path, ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return Module(path, None)
