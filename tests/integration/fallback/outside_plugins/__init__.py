"""Plugins for the schedulers that `outside` runs."""
