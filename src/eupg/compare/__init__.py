"""Several ways to forget, measured side by side on one data set."""
