"""Tasks that several kinds of problems share."""
