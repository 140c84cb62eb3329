"""Where the real images are that the tests marked `data` read; it imports nothing heavy."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Read here, since the shared fixture `home` clears the environment.
DATA = Path(os.environ.get("DEPLOYER_TEST_DATA", ROOT.parent / "shared" / "data"))
