"""The SQLite file, with one module for each table.

Nothing here decides anything or knows HTTP. Times, `now` among them, are seconds since the epoch.
"""
