"""The SQLite file, with a module for each kind of row.

Nothing here decides anything or knows HTTP. Times, `now` among them, are seconds since the epoch.
"""
