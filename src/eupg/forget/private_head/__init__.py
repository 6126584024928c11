"""A linear model of public features, trained under differential privacy, and served as it is."""
