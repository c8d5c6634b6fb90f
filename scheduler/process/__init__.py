"""The process: starts, runs and stops everything, and serves its pages.

`application` is the run from the configuration to the exit code, `endpoints` what it serves.
"""
