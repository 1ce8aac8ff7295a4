"""The git repository of the notes, by the git program.

git               runs git so that a repository's own configuration starts no programs
memory_git        the door: commits, tags, push, revert
commits           commits of our own files that leave all else as it is
conversations     the repository of the raw conversations
lfs               attachments that git keeps as pointers
setup             creates a repository, or adopts a folder
hooks             what runs when a person commits: checks, and the index
staged_check      what is wrong with notes, on disk or staged
commit_messages   the form of commit messages, and their summaries
introspection     when, where from, what changed, as of a tag
branches          explore/* and extract/*, without a checkout
"""
