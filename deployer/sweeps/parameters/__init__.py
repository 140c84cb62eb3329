"""The forms that a sweep's `parameters` can have: parse, count, grid value, quantile and cdf.

Pure: knows no files and no servers. What is wrong comes back as complaints, so that the caller
decides which of them stop a sweep.
"""
