"""Start a supervisor: `python -m deployer.agent ENTITY/PROJECT/SWEEP_ID --name N --folder F`."""

import os
import signal
import sys

from .exit_codes import FAILED
from .host.processes import WATCHED_SIGNALS, run_task
from .host.status import hold_lock
from .runs.delivery import clear_leftovers
from .server import GOODBYE_SECONDS, ServerAddress, say_goodbye
from .settings import KEY_VARIABLE, AgentSettings, parse_settings
from .supervisor import Supervisor


def main() -> int:
    """Run one supervisor; with `--detach`, return as soon as it holds its lock."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
    settings = parse_settings(sys.argv[1:], os.environ)
    os.makedirs(settings.folder, mode=0o700, exist_ok=True)
    if settings.clear:
        # End orphans, unless a supervisor is running here; FAILED if one does not end.
        if hold_lock(settings.lock_path) is None:
            return 0
        key = os.environ.get(KEY_VARIABLE, "")
        gone = clear_leftovers(settings, key)
        if gone and key:
            run_task(lambda: say_goodbye(ServerAddress(settings.base_url, key)), GOODBYE_SECONDS)
        return 0 if gone else FAILED
    if not settings.detach:
        return _supervise(settings)
    receiver, sender = os.pipe()
    if os.fork():
        os.close(sender)
        return 0 if os.read(receiver, 1) else FAILED
    os.close(receiver)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(settings.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    return _supervise(settings, sender)


def _supervise(settings: AgentSettings, ready: int = -1) -> int:
    """Lock the agent's folder, signal on the pipe `ready`, and run; FAILED if locked."""
    if hold_lock(settings.lock_path) is None:
        sys.stderr.write(f"an agent {settings.name} works in {settings.folder} already\n")
        return FAILED
    supervisor = Supervisor(settings, dict(os.environ))
    if ready >= 0:
        os.write(ready, b"1")
        os.close(ready)
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
