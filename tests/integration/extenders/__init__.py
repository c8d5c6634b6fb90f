"""HTTP extenders, and cycles that wait, against an embedded cluster."""
