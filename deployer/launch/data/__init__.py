"""The data sets that runs read."""
