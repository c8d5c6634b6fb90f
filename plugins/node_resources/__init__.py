"""Plugins about the amounts that pods ask for and nodes have."""
