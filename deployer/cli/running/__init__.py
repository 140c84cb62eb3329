"""Commands that run a sweep and follow it to its end."""
