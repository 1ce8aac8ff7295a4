"""The part of a prompt that memories get: four tiers under one budget. Pure."""
