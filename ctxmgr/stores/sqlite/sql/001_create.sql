-- Migration 1: the whole layout.
--
--   name      every id, and every short text in stored lists, once; a SHA-256 in hex as 32 bytes
--   tx        one row per transaction: sequence, instant, the caller's key and the digest of its
--             operations; without a key a random mark instead, see submission.py
--   write     one row per put or delete, wid = sequence << 14 | its number in the transaction;
--             valid_from NULL: the transaction's instant
--   entry     where a version of an object starts in valid time, see timeline.py
--   head      the version visible from `since` until `until`: most reads need no timeline
--   field     searchable fields: those that a kind declares, and '' for the kind itself
--   ever      objects by every value a field has ever had, for reads as of a point in time;
--             `place` is the sort key of the object's id
--   present   objects by the values of the version in their head
--   piece     large values with the hash of their bytes; shared: looked up by it
--   list, item  long lists; slot = list << 24 | position, a version refers to (list, length)

CREATE TABLE name (
  nid INTEGER PRIMARY KEY,
  text ANY NOT NULL UNIQUE
) STRICT;

CREATE TABLE tx (
  seq INTEGER PRIMARY KEY,
  instant INTEGER NOT NULL,
  key TEXT,
  digest BLOB
) STRICT;

CREATE UNIQUE INDEX tx_key ON tx (key) WHERE key IS NOT NULL;

CREATE TABLE write (
  wid INTEGER PRIMARY KEY,
  nid INTEGER NOT NULL,
  valid_from INTEGER,
  valid_to INTEGER,
  format INTEGER NOT NULL,
  body BLOB
) STRICT;

CREATE TABLE entry (
  nid INTEGER NOT NULL,
  vt INTEGER NOT NULL,
  wid INTEGER NOT NULL,
  gone INTEGER NOT NULL,
  PRIMARY KEY (nid, vt, wid)
) STRICT, WITHOUT ROWID;

CREATE TABLE head (
  nid INTEGER PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER,
  wid INTEGER,
  fields TEXT
) STRICT;

CREATE INDEX head_until ON head (until) WHERE until IS NOT NULL;

CREATE TABLE field (
  fid INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  type TEXT NOT NULL
) STRICT;

CREATE TABLE ever (
  fid INTEGER NOT NULL,
  value ANY NOT NULL,
  place BLOB NOT NULL,
  nid INTEGER NOT NULL,
  PRIMARY KEY (fid, value, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE present (
  fid INTEGER NOT NULL,
  value ANY NOT NULL,
  place BLOB NOT NULL,
  nid INTEGER NOT NULL,
  PRIMARY KEY (fid, value, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE piece (
  pid INTEGER PRIMARY KEY,
  address BLOB NOT NULL,
  shared INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX piece_address ON piece (address) WHERE shared = 1;

CREATE TABLE list (
  lid INTEGER PRIMARY KEY,
  parent INTEGER,
  shared INTEGER NOT NULL
) STRICT;

CREATE TABLE item (
  slot INTEGER PRIMARY KEY,
  number INTEGER NOT NULL
) STRICT;

-- Transaction 0 is internal: its digest is the store's random name, which tokens begin with.
INSERT INTO tx (seq, instant, digest) VALUES (0, 0, randomblob(4));
