"""Remedies: what would have to change for a pending pod to fit, each verified in a trial."""
