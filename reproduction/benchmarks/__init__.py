"""Speed, as ratios measured in one run against a named peer. Run with ``make bench``."""
