"""Reading of the user's tables, from files and data frames, with all cells as text."""
