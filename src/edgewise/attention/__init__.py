"""Attention over a graph: ``attend``, ``aggregate`` and the three steps."""
