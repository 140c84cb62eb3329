"""Which agents a sweep has: planned, started, told what they need, fewer, ended."""
