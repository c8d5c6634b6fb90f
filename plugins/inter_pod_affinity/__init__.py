"""InterPodAffinity: pods that want to be near other pods, or away from them."""
