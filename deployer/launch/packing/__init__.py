"""How many agents share a GPU, or this machine; given, or measured while they work."""
