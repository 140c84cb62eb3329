"""The reference, generated from the code, and what holds for every document."""
