"""Stage 6, audit: measure what a model or a release still gives away, against what was claimed."""

from eupg.audit.membership import audit
from eupg.audit.versions import VersionsReport, compare_versions

__all__ = ["VersionsReport", "audit", "compare_versions"]
