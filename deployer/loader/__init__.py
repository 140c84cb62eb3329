"""The program of a data loader's pod: it serves the files of one volume to whoever copies data.

Standard library alone, Python 3.8: it runs in any image. It imports nothing else of deployer.
"""
