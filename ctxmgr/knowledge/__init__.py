"""Knowledge: markdown notes in git, and what of them the model sees.

notes/        the notes: frontmatter, sections, links, where they are, safe reads and writes
repository/   git: set-up, checks, commits, tags, branches, history
topics/       topics: what a message or an answer activates, and why
"""
