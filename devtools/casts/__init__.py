"""Casts: recordings of the demos as animated SVG, for the documents (`make casts`)."""
