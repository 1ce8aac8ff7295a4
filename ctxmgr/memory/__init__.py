"""Living memory: what an agent learnt, kept beyond the session, aged and put into prompts.

records/          facts, episodes, patterns, workflows; levels; contradictions      pure
principal         who asks, and what they may see                                   pure
ranking           how useful a memory has proved, from counters and age             pure
contradictions/   which facts disagree                                              pure
tiers/            the text of a prompt, under a budget                              pure
project           the identity of a project, on any machine                         reads git
repository        memories as documents of the core store                           commits
living            the door: add, serve, forget, resolve                             commits
"""
