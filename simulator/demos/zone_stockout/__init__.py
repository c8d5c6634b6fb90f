"""The story of `kubestow demo zone-stockout`: strict spreading gives way (KEP-3990)."""
