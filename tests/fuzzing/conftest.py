"""Keeps pytest from importing modules that need atheris, which not every platform has."""

collect_ignore = ["run.py"]
