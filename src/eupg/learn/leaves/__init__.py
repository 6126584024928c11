"""Models that add up one number per cell: cells of grids, categories, and leaves of small trees."""
