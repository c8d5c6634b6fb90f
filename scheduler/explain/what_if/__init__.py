"""Questions about the live state: trials, what-if, and remedies for pending pods."""
