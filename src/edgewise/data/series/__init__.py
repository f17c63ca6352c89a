"""Time series to forecast."""
