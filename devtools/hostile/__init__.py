"""A generated catalogue of hostile objects, and a world to feed them to."""
