"""Living memory: what an agent learnt, kept beyond the session, aged and put into prompts.

    records/          facts, episodes, patterns, workflows; levels; who may see them    pure
    contradictions/   which facts disagree                                              pure
    consolidation/    what the six steps of the nightly upkeep would change             pure
    extraction/       what a session teaches, by rules                                   pure
    prediction/       what the work at hand will need                                   pure
    tiers/            ranking, and the text of a prompt under a budget                  pure
    relevance         which memories match a question                                   pure
    project           the identity of a project, on any machine                         reads git
    repository        memories as documents of the core store                           commits
    consolidation_engine    runs the six steps                                          commits
    learning/         from a store's events to memories, and from memories to prompts    commits
    contradiction_scanner   what a new memory contradicts                               commits
    purging           what a purge of a memory replaces                                 reads
    transfer          a project's memories into a file, and back                        commits
    living            the door: add, serve, forget, resolve                             commits

A model is needed nowhere; one can judge contradictions that rules cannot.
"""
