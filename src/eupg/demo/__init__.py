"""The demonstration: one person's erasure from a model of real people, told in the terminal and on a page."""
