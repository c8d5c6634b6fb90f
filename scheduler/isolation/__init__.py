"""Plugins that run in a thread or a process of their own, as `kubestow.isolation` says.

The scheduling cycle awaits their calls with a timeout, and continues without them.
"""
