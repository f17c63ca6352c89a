"""Text data sets: language modelling, classification, tagging, translation and summarisation."""
