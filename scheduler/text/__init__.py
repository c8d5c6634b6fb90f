"""Texts of others: the syntax of names, and what may leave the process or reach a terminal."""
