"""A base model for tables, trained under differential privacy on public cells, and served as it is."""
