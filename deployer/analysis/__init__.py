"""Evaluates a sweep's runs: ranking, importance, best so far, axes, cost; pure.

The page, a report and the terminal call the same functions, so that their figures are equal. It
must not know servers, files, clocks, or print.
"""
