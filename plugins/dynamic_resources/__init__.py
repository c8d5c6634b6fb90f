"""DynamicResources: the plugin, and the structured allocator of devices that it uses."""
