"""The stories of `kubestow demo`: one board, one runner, a package for each story."""
