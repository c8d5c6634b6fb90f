"""KEP-3990 inside the plugin: pure, one attempt after the other, with a clock moved by hand."""
