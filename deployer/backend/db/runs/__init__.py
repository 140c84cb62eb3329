"""The tables of runs: their rows, attempts and lines, and what has changed of them."""
