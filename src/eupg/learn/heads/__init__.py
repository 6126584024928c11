"""Linear models of public features: the model, its file, and sums from which one follows exactly."""
