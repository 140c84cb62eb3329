"""An agent's runs: what they print and leave, how they end, and what the server hears of it."""
