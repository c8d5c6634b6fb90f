"""PodTopologySpread: pods that belong together, spread over zones, nodes or other domains."""
