"""Graphs: one large graph to label or to find links in, and sets of small ones."""
