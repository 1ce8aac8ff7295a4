"""Which memories cannot both hold. Pure."""
