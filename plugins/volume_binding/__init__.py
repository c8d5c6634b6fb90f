"""VolumeBinding and what it shares with the other volume plugins."""
