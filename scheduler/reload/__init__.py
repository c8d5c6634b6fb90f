"""Taking over a changed configuration file, or changed plugins, without a restart."""
