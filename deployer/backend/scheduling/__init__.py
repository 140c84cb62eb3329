"""The lifecycle of runs and sweeps: assigning, ending, stopping, and the search.

It must not know HTTP.
"""
