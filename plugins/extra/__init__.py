"""Plugins that are installed with kubestow and that no profile has unless it names them.

A profile names one by module and class, such as `plugins.extra.load_aware:LoadAware`. Nothing here
is imported before.
"""
