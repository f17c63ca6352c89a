"""Time-series data sets."""
