"""Extenders without a network."""
