"""`python -m tests.outside VERSION` keeps what one version of wandb names."""

from __future__ import annotations

import sys

from tests.contract.sdks import python_with
from tests.outside.recording import keep

if __name__ == "__main__":
    for version in sys.argv[1:]:
        sys.stdout.write(f"{keep(python_with(version), version)}\n")
