"""Nightly upkeep: merge, condense, rank, compare, forget and link memories in six steps."""
