"""Audits of a release: linkage, reconstruction from known records, and twins of forgotten records."""
