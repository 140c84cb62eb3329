"""Reaches into modules of the SDK as a run imports them, and mends the end of its connection.

When its program ends the SDK asks wandb-core to end, too, and closes the connection at once. If
wandb-core sends an answer just then, it finds the connection broken and drops what it has not read:
the run's last lines, and that it is to end. The run's process would wait for it for ever.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

CLIENT = "wandb.sdk.lib.service.service_client"
OLD_URL = "DEPLOYER_OLD_BASE_URL"  # of W&B's cloud, for an SDK that does not know its newer name
FIRST_FORGE_SDK = (0, 31)  # addresses.py
READ_SECONDS = 60.0  # to read what is left; then the connection is closed all the same
LOOK_SECONDS = 0.002


class Awaited:
    """Waits on `sys.meta_path` for one module, then leaves; `act` gets the module."""

    def __init__(self, name: str, act: "Callable[[Any], None]") -> None:
        self.name = name
        self.act = act

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Find that one module by the other finders, and act once it has been executed."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path)
        spec: "Any" = next((one for one in found if one and one.loader), None)
        if spec:
            execute = spec.loader.exec_module

            def execute_and_act(module: "Any") -> None:
                execute(module)
                act_safely(self.name, self.act, module)

            spec.loader.exec_module = execute_and_act
        return spec


def await_module(name: str, act: "Callable[[Any], None]") -> None:
    """Have `act` called with a module of the SDK once this process has imported it."""
    if name in sys.modules:  # of a warm run
        act_safely(name, act, sys.modules[name])
    else:
        sys.meta_path.insert(0, Awaited(name, act))


def act_safely(name: str, act: "Callable[[Any], None]", module: "Any") -> None:
    """Call `act`; an SDK that it does not fit must not fail in the script's `import wandb`."""
    try:
        act(module)
    except Exception as error:
        said = f"this wandb's {name} is unknown, and stays unchanged: {error!r}"
        sys.stderr.write(f"deployer: {said}\n")


def choose_base_url(environment: "Any") -> None:
    """Name the server as the run's SDK knows it: its version may be another than the agent's."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        for name in names:
            if name.startswith("wandb-") and name.endswith(".dist-info"):
                numbers = name.split("-")[1].split(".")[:2]
                if tuple(int(one) for one in numbers if one.isdigit()) < FIRST_FORGE_SDK:
                    environment["WANDB_BASE_URL"] = environment[OLD_URL]
                return


def close_when_read(module: "Any") -> None:
    """Have the SDK's client close its connection after wandb-core, which has then read everything.

    A client that does not look like the one that we know stays as it is.
    """
    client: "Any" = getattr(module, "ServiceClient", None)
    asyncio: "Any" = getattr(module, "asyncio", None)
    if not (asyncio and hasattr(client, "close")):
        return
    close = client.close

    async def wait_until_read(writer: "Any", reader: "Any") -> None:
        writer.write_eof()
        while not (reader.at_eof() or reader.exception()):
            await asyncio.sleep(LOOK_SECONDS)

    async def close_later(self: "Any") -> None:
        writer, reader = getattr(self, "_writer", None), getattr(self, "_reader", None)
        if writer and reader:
            try:
                await asyncio.wait_for(wait_until_read(writer, reader), READ_SECONDS)
            except (asyncio.TimeoutError, OSError):
                pass  # the connection is broken, or wandb-core another one than we know
        await close(self)

    client.close = close_later
