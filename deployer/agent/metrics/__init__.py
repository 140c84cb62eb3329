"""Metrics of a script that knows no W&B: read from its output, logged by a wrapper.

`spec` says what counts, `lines` reads it, `wrapper` is the run's first process.
"""
