"""Stage 5, forget: a trained model and the records that may be kept become a model without the others."""
