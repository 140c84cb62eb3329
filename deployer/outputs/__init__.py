"""What runs have written and logged: where it is kept, and how it comes back.

Chooses runs, finds the places of their outputs and copies them; prints nothing.
"""
