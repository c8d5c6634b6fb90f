"""kubestow against API servers of older releases, built from their Go modules beside v1.37."""
