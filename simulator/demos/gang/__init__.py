"""The story of `kubestow demo gang`: pods that start together or not at all."""
