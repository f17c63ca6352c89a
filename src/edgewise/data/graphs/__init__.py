"""Graph data: node and graph classification, link prediction, recommendation."""
