"""Stage 1, protect: records become a release whose guarantee survives any later computation."""
