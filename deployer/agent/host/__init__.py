"""The supervisor's view of its host: processes, signals, memory, its own status file."""
