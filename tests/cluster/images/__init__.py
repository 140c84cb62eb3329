"""Images and code that pods get."""
