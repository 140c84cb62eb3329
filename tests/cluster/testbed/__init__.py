"""The test cluster itself."""
