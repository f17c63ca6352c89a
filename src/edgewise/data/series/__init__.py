"""Series of numbers in time."""
