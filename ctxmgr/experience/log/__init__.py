"""The experience log in one folder.

    log.sqlite                          the tail, the catalogue of segments, and all small tables
    segments/timesteps-NAME.parquet     timesteps by session and tick
    segments/activations-NAME.parquet   their activations by concept, session and tick
    fold.lock                           held while segments are written or removed

An append is one transaction on ``log.sqlite``. A fold moves the oldest batches of the tail to a
segment, and a merge replaces small segments by a larger one. Segments never change: a reader works
with the files that one transaction listed.
"""
