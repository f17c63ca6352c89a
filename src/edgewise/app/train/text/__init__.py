"""What kinds of problems on texts share."""
