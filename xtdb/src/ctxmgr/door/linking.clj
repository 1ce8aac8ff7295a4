(ns ctxmgr.door.linking
  "Corrects one effect of compiling with direct linking. Loaded before all that hashes.

  The engine chooses its hash function at the first call, behind a lock, and then puts it in the
  place of the function that chose. A call linked directly would go on to that function and its
  lock for ever: every hash of every thread, one after the other."
  (:require [xtdb.hash]))

(alter-meta! #'xtdb.hash/id-hash assoc :redef true)
