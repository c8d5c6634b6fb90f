"""Traces of scheduling attempts."""
