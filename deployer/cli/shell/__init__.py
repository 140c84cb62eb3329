"""The command line itself: commands, groups, shared options, examples, completion, usage."""
