"""The life of runs and sweeps: handing out, ending, stopping, and the search.

It must not know HTTP.
"""
