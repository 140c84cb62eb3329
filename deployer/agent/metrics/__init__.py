"""Metrics of a script that knows no W&B: read from its output, logged by a wrapper.

`lines` says what counts and reads it, `wrapper` is the run's first process.
"""
