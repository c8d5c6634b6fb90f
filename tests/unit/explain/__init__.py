"""Tests of the records of debug pages, and of their words."""
