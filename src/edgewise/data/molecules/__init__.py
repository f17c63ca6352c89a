"""Molecule data sets, read from SMILES."""
