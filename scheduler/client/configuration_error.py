"""ConfigurationError, in a module that imports nothing.

Commands that read credentials, and talk to no API server themselves, need no typed objects.
"""

from __future__ import annotations


class ConfigurationError(Exception):
    """No usable cluster configuration; the message names what is missing."""
