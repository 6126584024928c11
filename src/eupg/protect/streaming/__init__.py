"""k-anonymity of tables larger than memory: survey, route, group, shuffle, one chunk or cell at a time."""
