"""Learning from sessions and serving them: what connects memory with a client.

session_record   how far a session was learnt from, and for whom          pure
read_exchange    the turns of an exchange, from the store                 reads
usage_judgement  which of the memories in a prompt the agent used         pure
learner          stores what an exchange teaches, once                    commits
listener         follows the events of a store                           commits
prompt_memory    what the next prompt gets                                reads
"""
