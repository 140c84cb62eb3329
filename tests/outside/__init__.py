"""What systems that are not ours send, name and say, in their own words, and whether ours fit them.

Each `.yaml` file names its source, its version and the date on which it was recorded. It is made by
the system's own functions or copied from its documents, never by ours. `wandb-sdk-VERSION.yaml` is
what one version of the SDK names: `python -m tests.outside VERSION` writes it for a new release.
"""
