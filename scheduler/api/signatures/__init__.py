"""Pod signatures: what pods of one template share, computed once for all of them."""
