"""Faster start: keep torch's compiler, which `--compile` alone uses, out of the process."""

import importlib
import sys
from types import ModuleType
from typing import Any


def defer_compiler() -> None:
    """Stand in for `torch._dynamo` until somebody needs more of it than torch.optim does.

    Every optimizer of torch 2 imports the compiler to tell it where not to compile: 1 to 3.5 s of
    each run, more than a small run trains. `disable` and `graph_break` mean nothing to a program
    that compiles nothing; any other name brings in the real module.
    """
    import torch  # noqa: F401 — its own import must not find the stand-in

    sys.modules.setdefault("torch._dynamo", StandIn("torch._dynamo"))


class StandIn(ModuleType):
    """The two functions of `torch._dynamo` that torch.optim calls; a door to the others."""

    @staticmethod
    def disable(function: Any, *_: object, **__: object) -> Any:
        """Return the function as it is."""
        return function

    @staticmethod
    def graph_break() -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        """Make room for the real module and look there.

        Not for names like `__file__`, which inspect reads off every module; `__path__` is what
        `import torch._dynamo.config` asks for.
        """
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)
