"""Images: digits, and pictures put together from them."""
