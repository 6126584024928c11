"""The command line: parse, call, print. Exit status 0: done; 1: the answer is no; 2: wrong use; 130: interrupted."""

from eupg.cli.main import main

__all__ = ["main"]
