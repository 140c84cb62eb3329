"""The two programs of a warm start, each a script of its own.

`forking.py` is the parent from which runs are forked, `stand_in.py` what an agent starts instead of
`python`. Nothing of either may be in a run's `sys.modules`, so the supervisor writes them as files.
"""
