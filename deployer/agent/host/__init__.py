"""This machine as a supervisor sees it: processes, signals, memory, its own status file."""
