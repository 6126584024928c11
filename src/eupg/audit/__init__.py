"""Stage 6, audit: measure what a model or a release still gives away, against what was claimed."""
