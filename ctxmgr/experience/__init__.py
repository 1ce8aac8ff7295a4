"""The experience of agents: what happened, token by token, kept as long as it matters.

records/     the values: timesteps, tags, comments, and their enumerations; pure
log/         the experience log: a durable tail in SQLite, history in Parquet, SQL by DuckDB
xdb          the door of the layer
listener     records what happens in a store
"""
