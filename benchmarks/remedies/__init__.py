"""Remedies in random worlds: each is applied to a fresh world, which must then place the pod."""
