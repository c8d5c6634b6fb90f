"""Tests of the test kit for authors of plugins."""
