"""SISA: one model per shard, retrained from the slice that held the forgotten record."""
