"""Public features: encoders of pictures and texts whose weights do not depend on the records."""
