"""How many agents share a GPU best, or this machine: measured by their own runs; pure."""
