"""Objects as an API server would store them."""
