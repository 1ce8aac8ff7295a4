"""Knowledge: markdown notes in git, and what of them the model sees.

config.py      the settings of all rooms
notes/         the notes: frontmatter, sections, links, where they are, safe reads and writes
repository/    git: set-up, checks, commits, tags, branches, history
transcripts/   one markdown file per session, outside the workspace
topics/        topics, the watchers that activate them, and the gate
compiler/      what of the notes a prompt gets
lifecycle/     extract, condense, prune, archive, reconstruct, review
library.py     opens a folder of notes and holds all of the above
"""
