"""The SQLite file, with a module for each kind of row.

Nothing here makes decisions or knows HTTP. Times, including `now`, are seconds since the epoch.
"""
