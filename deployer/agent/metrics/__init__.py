"""Metrics of a script that knows no W&B: read from its output or files, logged by a wrapper.

`spec` says what counts, `lines` and `files` read it, `wrapper` is the run's first process.
"""
