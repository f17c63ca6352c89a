"""Tables of the user: files and data frames as cells of text, which errors name."""
