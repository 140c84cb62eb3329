"""What a forked run does anew, because the parent's imports did it for all."""

import os
import sys
import time
from typing import Any, Callable, Dict, Sequence, Tuple


def build_seeding(generators: Sequence[Any], numpy_generators: Sequence[Any]) -> Callable[[], None]:
    """Return what seeds generators that were made without a seed."""
    mtrand: Any = sys.modules.get("numpy.random.mtrand")
    torch: Any = getattr(sys.modules.get("torch"), "default_generator", None)
    process: Any = sys.modules.get("multiprocessing.process")

    def seed() -> None:
        for one in generators:
            one.seed()  # the shared one of `random` does it itself
        for one in numpy_generators:
            one.state = type(one)().state
        if mtrand:
            mtrand.seed()
        if torch:
            torch.seed()
        if process:
            config = process.current_process()._config
            config["authkey"] = process.AuthenticationString(os.urandom(32))

    return seed


def make_folder(folder: Any, words: Tuple[Any, ...]) -> None:
    """Make a temporary folder that was made at an import, under a name of its own."""
    folder._finalizer.detach()
    folder.__init__(*words)


def restart_clock(logging: Any) -> None:
    """Have log records count from now, in the unit of this Python."""
    whole = isinstance(logging._startTime, int)
    logging._startTime = time.time_ns() if whole else time.time()


def name_program(_process: Any) -> None:
    """Give this program the name by which spawned processes know it."""
    sys.modules["__mp_main__"] = sys.modules["__main__"]


def number_thread(threading: Any) -> None:
    """Have the main thread know its number, which a fork does not renew."""
    threading.main_thread()._set_native_id()


def name_process(settings: Any) -> None:
    """Have the SDK measure this process; its class keeps the one that imported it."""
    field = getattr(settings.Settings, "model_fields", {}).get("x_stats_pid")
    if field is not None:
        field.default = os.getpid()
        settings.Settings.model_rebuild(force=True)


def tell_prologue(module: Any) -> None:
    """Give a run's prologue a module that it may wait for."""
    prologue = sys.modules.get("deployer_sdk")
    if prologue:
        prologue.notice(module)


REPAIRS: Dict[str, Callable[[Any], None]] = {
    "logging": restart_clock,
    "multiprocessing.process": name_program,
    "threading": number_thread,
    "wandb.sdk.lib.service.service_client": tell_prologue,
    "wandb.sdk.wandb_run": tell_prologue,
    "wandb.sdk.wandb_settings": name_process,
}
