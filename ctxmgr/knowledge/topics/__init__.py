"""Topics: when instructions and notes are added to a prompt.

topic               a topic file, checked
topic_folder        all topics of a folder
switches            what the watchers use, each switch by itself
pattern_matcher     Tier 1: triggers
signals             code, language, mentions, URLs and mood of one message
similarity_scorer   Tier 2: similarity without a model
bypass              who is asked about at all
gate                Tier 3: a question to a model, or a rule
output_watcher      corrections of the agent's own answers
watcher_pipeline    the door: the tiers in order
session_watcher     the topics of one session, turn by turn
triggers            webhooks and schedules
gate_decision       one decision
decision_log        every decision, in the core store
usefulness          whether a topic was of use
tuning              what the log suggests
"""
