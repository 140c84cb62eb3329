"""A stand-in for the package `wandb`: contacts nothing, writes nothing, and knows the config.

A script that logs has read its flags long ago: what it does then is no longer rehearsed.
"""

import importlib.machinery
import sys
import types
from typing import Any, Callable, Dict, Iterator, Optional, Sequence

LOGGING = ("log", "log_artifact", "agent", "finish")


class Anything:
    """An object that can be called, looked into and inherited from, and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return make_stand_in(name)

    def __call__(self, *args: Any, **_: Any) -> Any:
        # As a decorator it leaves what it decorates.
        return args[0] if len(args) == 1 and isinstance(args[0], types.FunctionType) else self

    def __getitem__(self, _: Any) -> Any:
        return self

    def __setitem__(self, _: Any, __: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Config(Dict[str, Any]):
    """`wandb.config` with the values of the first configuration."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *given: Any, **more: Any) -> None:
        """Take over whatever mapping is given."""
        for one in given:
            if isinstance(one, dict):
                super().update(one)
        more.pop("allow_val_change", None)
        super().update(more)

    def as_dict(self) -> Dict[str, Any]:
        """Return the values as a dict of their own."""
        return dict(self)

    def setdefaults(self, given: Any) -> None:
        """Take over what is not known yet."""
        for name, value in dict(given).items():
            self.setdefault(name, value)


class Run(Anything):
    """What `wandb.init` returns."""

    config: Config
    stop: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        if name in LOGGING:
            self.stop()
        return super().__getattr__(name)


def make_stand_in(name: str) -> Any:
    """Return a class for a name that looks like one, else an object."""
    return type(name, (Anything,), {}) if name[:1].isupper() else Anything()


class Module(types.ModuleType):
    """A module of the stand-in; whatever is asked of it is there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return make_stand_in(name)


class Finder:
    """Finds the stand-in in place of `wandb` and all that is in it."""

    def __init__(self, config: Dict[str, Any], stop: Callable[[], None]) -> None:
        self._run = Run()
        self._run.config = Config(config)
        self._run.stop = stop
        self._stop = stop

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[Any]:
        """Return where the stand-in is, for its names alone."""
        if name != "wandb" and not name.startswith("wandb."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> Module:
        """Return a new module."""
        return Module(spec.name)

    def exec_module(self, module: Any) -> None:
        """Furnish the module `wandb` itself."""
        if module.__name__ != "wandb":
            return
        module.__version__ = find_version()
        module.run = self._run
        module.config = self._run.config
        module.init = self._init

    def _init(self, *_: Any, **given: Any) -> Run:
        if isinstance(given.get("config"), dict):
            self._run.config.setdefaults(given["config"])
        module: Any = sys.modules["wandb"]
        for name in LOGGING:
            setattr(module, name, lambda *_, **__: self._stop())
        return self._run


def find_version() -> str:
    """Return the version of the wandb that is installed."""
    try:
        from importlib.metadata import version

        return version("wandb")
    except Exception:
        return "0"


def install(config: Dict[str, Any], stop: Callable[[], None], path: Sequence[str]) -> None:
    """Put the stand-in before wandb, if there is a wandb."""
    found = importlib.machinery.PathFinder.find_spec("wandb", list(path))
    if found is not None and found.origin:
        sys.meta_path.insert(0, Finder(config, stop))
