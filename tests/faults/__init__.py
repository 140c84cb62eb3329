"""Faults for real processes: a proxy, kills, a moved clock, a full disk, and the proof."""
