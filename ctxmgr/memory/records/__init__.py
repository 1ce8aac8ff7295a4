"""The values of living memory and their stored form. Pure."""
