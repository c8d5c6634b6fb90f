"""DynamicResources: the plugin, and the allocator of devices, which the plugin does not use yet."""
