"""Untrusted text: the syntax of names, and what may leave the process or reach a terminal."""
