"""Transcripts: one markdown file per session, outside the agent's workspace.

transcript     the format: what is written, and how it is read; pure
turns          what of a stored turn becomes which lines; pure
capture        writes transcripts; append-only while open, read-only after
listener       feeds the capture from a store's events
"""
