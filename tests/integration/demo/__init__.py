"""`kubestow demo`, from its board to the whole command."""
