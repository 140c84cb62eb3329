"""A stub of the package `wandb`: contacts nothing, writes nothing, and knows the configuration."""

import importlib.machinery
import sys
import types
from typing import Any, Dict, Iterator, Optional

TRAINING = ("log", "log_artifact", "agent", "finish")


class Anything:
    """An object that can be called, read, compared and inherited from, and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return make_stub(name)

    def __call__(self, *args: Any, **_: Any) -> Any:
        # A decorator returns what it decorates.
        return args[0] if len(args) == 1 and isinstance(args[0], types.FunctionType) else self

    def __getitem__(self, _: Any) -> Any:
        return self

    def __setitem__(self, _: Any, __: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __fspath__(self) -> str:
        return "."

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Config(Dict[str, Any]):
    """`wandb.config` with the values of one configuration."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *given: Any, **more: Any) -> None:
        """Take over what the sweep does not set: W&B locks its values."""
        more.pop("allow_val_change", None)
        for one in (*given, more):
            self.setdefaults(one)

    def as_dict(self) -> Dict[str, Any]:
        """Return the values as a plain dict."""
        return dict(self)

    def setdefaults(self, given: Any) -> None:
        """Take over the values of a mapping or a namespace that are not known yet."""
        values = given if hasattr(given, "keys") else getattr(given, "__dict__", {})
        for name, value in dict(values).items():
            self.setdefault(name, value)


def make_stub(name: str) -> Any:
    """Return a class for a name that looks like one, else an object."""
    return type(name, (Anything,), {}) if name[:1].isupper() else Anything()


class Run(Anything):
    """What `wandb.init` returns; a script that logs is training."""

    def __init__(self, session: Any, config: Config) -> None:
        self.config, self._session = config, session
        self.id = self.name = "rehearsal"

    def __getattr__(self, name: str) -> Any:
        if name in TRAINING:
            self._session.settle("log")
        return super().__getattr__(name)


class Module(types.ModuleType):
    """A module of the stub: every name is there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in TRAINING:
            return getattr(self.run, name)
        return make_stub(name)


class Finder:
    """Finds the stub instead of `wandb`, where there is a wandb."""

    def __init__(self, session: Any) -> None:
        self._session = session
        session.config = Config(session.config)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[Any]:
        """Return the stub's spec for the names of `wandb` alone."""
        if name.partition(".")[0] != "wandb":
            return None
        if name == "wandb":
            found = importlib.machinery.PathFinder.find_spec(name)
            if found is None or not found.origin:
                return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> Module:
        """Return a new module."""
        return Module(spec.name)

    def exec_module(self, module: Any) -> None:
        """Fill in the module `wandb` itself."""
        session = self._session
        module.run = Run(session, session.config)
        module.config = session.config
        if module.__name__ != "wandb":
            return
        module.__version__ = find_version()

        def init(*_: Any, config: Any = None, **__: Any) -> Run:
            session.defaults = dict(read_config(config))
            session.begin_run()
            session.config.setdefaults(config)
            run: Run = sys.modules["wandb"].run
            return run

        module.init = init


def read_config(given: Any) -> Config:
    """Return the values of a mapping or a namespace."""
    found = Config()
    found.setdefaults(given)
    return found


def find_version() -> str:
    """Return the version of the installed wandb."""
    try:
        from importlib.metadata import version

        return version("wandb")
    except Exception:
        return "0"
