"""Texts that leave the process: without credentials, and with nothing that controls a terminal."""
