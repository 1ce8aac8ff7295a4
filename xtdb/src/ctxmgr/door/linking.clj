(ns ctxmgr.door.linking
  "Works around one effect of direct linking. Must be loaded before any code that hashes.

  The engine chooses its hash function in the first call, behind a lock, and then redefines the
  function that made the choice. Directly linked callers would keep calling the original function
  with its lock, which would serialize all hashing across threads."
  (:require [xtdb.hash]))

(alter-meta! #'xtdb.hash/id-hash assoc :redef true)
