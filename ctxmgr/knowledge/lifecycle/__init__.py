"""The lifecycle of knowledge: from transcripts to notes, to the archive, and back.

extractors/        what a transcript says: decisions, lessons, people, procedures, facts, journal
draft              changes of notes that are not written yet; a dry run prints them
extract            runs extractors over transcripts, and applies what they find
condense           journals of the day, the week's rollup, the month's distillation
prune              keeps MEMORY.md below its cap, moves what is old to the archive
reconstruct        builds all notes again on a branch
review             changes of identity and topics, which wait for a person
liveness           notes that name what a project no longer has
schedule           what is due, and who runs it
lifecycle          the door
"""
