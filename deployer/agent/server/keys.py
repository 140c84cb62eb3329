"""Which key an agent uses: the given one, or a newer one of its own."""

import os
from typing import MutableMapping

from ..settings import KEY_FILE_VARIABLE, KEY_VARIABLE

KEY_BYTES = 20  # 40 hexadecimal characters, the shortest key that every SDK accepts


class Keys:
    """An agent's keys; `environment`, which its runs get, always has the one to be used."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._environment = environment
        file = environment.get(KEY_FILE_VARIABLE, "")
        self.given = (_read(file) if file else "") or environment.get(KEY_VARIABLE, "")
        self.use(self.given)

    @property
    def current(self) -> str:
        """Return the key to be used now."""
        return self._environment[KEY_VARIABLE]

    @property
    def own(self) -> bool:
        """Tell whether the agent has a key of its own, which W&B's own servers never make."""
        return self.current != self.given

    def use(self, key: str) -> None:
        """Work with this key from now on."""
        self._environment[KEY_VARIABLE] = key


def choose_key() -> str:
    """Return a fresh key."""
    return os.urandom(KEY_BYTES).hex()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
