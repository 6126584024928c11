"""Stage 1, protect: records become a release whose guarantee survives any later computation."""

from eupg.protect.microaggregation import mdav

__all__ = ["mdav"]
