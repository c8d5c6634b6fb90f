"""The story of `kubestow demo`: a morning in a cluster of 39 nodes."""
