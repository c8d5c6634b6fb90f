"""NumaAware: the plugin is `plugins.extra.numa_aware.plugin:NumaAware`."""
