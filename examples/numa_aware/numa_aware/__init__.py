"""NumaAware: the plugin is `numa_aware.plugin:NumaAware`."""
