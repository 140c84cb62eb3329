"""The embedded backend inside a cluster: made, found, reached and taken down by its labels."""
