"""A user's session with the SDK, for the Python of any version: standard library and wandb alone.

Run as `python -m tests.contract.session PART` in an empty folder; the parts run side by side.
"""

PARTS = ("words", "files", "reading", "controls", "agents", "ends")
