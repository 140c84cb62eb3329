"""The forms of a sweep's `parameters`: parse, count, grid value, quantile and cdf.

Pure: knows no files and no servers. Problems are returned as data, so that the caller
decides which of them stop a sweep.
"""
