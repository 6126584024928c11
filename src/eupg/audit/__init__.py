"""Stage 6, audit: measure what a model or a release still gives away, against what was claimed."""

from eupg.audit.membership import audit

__all__ = ["audit"]
