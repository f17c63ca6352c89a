"""Molecules, read from SMILES, with properties to predict."""
