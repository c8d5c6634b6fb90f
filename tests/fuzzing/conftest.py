"""Keeps pytest from importing what needs atheris, which not every platform has."""

collect_ignore = ["run.py"]
