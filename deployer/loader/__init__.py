"""The program of a data loader's pod: it serves the files of one volume for copying data.

Standard library only, Python 3.8: it runs in any image. It imports nothing else of deployer.
"""
