"""What tests build or install once for this machine; a CI keeps the folder between its runs."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

# Tests run with an empty HOME, so the user's own is asked of the system.
REAL_HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)
CACHE = Path(os.environ.get("DEPLOYER_TEST_CACHE", REAL_HOME / ".cache/deployer-tests"))
