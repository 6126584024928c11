"""Other systems: MLflow, webhooks and the folder of evidence for an outsider."""
