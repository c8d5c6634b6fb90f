"""KEP-3990 end to end: the simulated autoscaler, the bridge and the scheduler together."""
