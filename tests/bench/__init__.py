"""Benchmarks: ratios within one run, since absolute times on a shared machine mean little."""
