"""The experiments of the paper and those beside them, with their results and the report about them."""
