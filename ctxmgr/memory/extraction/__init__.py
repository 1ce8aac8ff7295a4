"""What a session teaches, found by rules in what was said and done. No I/O, no model.

exchange         what extractors read: the user's words, the answers, the tool calls
own_words        the sentences that the user wrote, without what was pasted or injected
tool_runs        the command, the changed files and the error of a tool call
findings         what an extractor found, and what was refused, with the reason
refusals         how what was refused is stored
instructions, decisions, stated_facts, error_fixes, episodes, workflows
                 one extractor each
project_files    conventions that a project's own files state
patterns         functions of one file that have the same shape (imports grammars)
extract          all extractors of exchanges
"""
