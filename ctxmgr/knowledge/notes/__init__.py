"""Notes: markdown files with optional YAML frontmatter.

note           a note and its parts
frontmatter    reading and changing YAML frontmatter without touching the rest
note_types     the fields and sections of every type of note, and what is wrong with one
sections       headings and dated bullets
wikilinks      [[links]] between notes
layout         the folders, and the category of a path
notes_folder   the door: reads, writes and lists the notes of a folder
held_folder    files below a folder, opened without following links
"""
