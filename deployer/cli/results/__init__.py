"""Commands that say what a sweep has found."""
