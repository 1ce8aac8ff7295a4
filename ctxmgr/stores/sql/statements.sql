-- Every statement of the SQLite store but the pages of find, which are joined from parts.

-- name: store_name
-- The random name of this file, which tokens begin with.
SELECT lower(hex(digest)) FROM tx WHERE seq = 0;

-- name: rename_store
-- Another random name, so that tokens of this file match in no copy of it.
UPDATE tx SET digest = randomblob(4) WHERE seq = 0;

-- name: last_tx
-- The newest transaction.
SELECT seq, instant FROM tx WHERE seq > 0 ORDER BY seq DESC LIMIT 1;

-- name: tx_by_key
-- The transaction that a caller's key names.
SELECT seq, instant, digest FROM tx WHERE key = ?;

-- name: tx_by_seq
-- The transaction of that sequence.
SELECT seq, instant, key, digest FROM tx WHERE seq = ?;

-- name: mark_of
-- The mark of a transaction without a key: its own, or that of the last before it that has one.
SELECT digest FROM tx
WHERE seq <= ?1 AND seq > max(?1 - ?2, 0) AND key IS NULL AND digest IS NOT NULL
ORDER BY seq DESC LIMIT 1;

-- name: insert_tx
-- A transaction; where the caller gave no key, a mark may stand for the digest.
INSERT OR FAIL INTO tx (seq, instant, key, digest) VALUES (?, ?, ?, ?);

-- name: find_name
-- The number of a text.
SELECT nid FROM name WHERE text = ?;

-- name: find_names
-- The numbers of several texts, as far as they have one.
SELECT text, nid FROM name WHERE text IN ({places});

-- name: last_name
-- The number that was given last.
SELECT max(nid) FROM name;

-- name: insert_name
-- A text that was not known.
INSERT OR FAIL INTO name (nid, text) VALUES (?, ?);

-- name: current
-- What is visible now, if now is inside the head's time: the read that must be fast.
SELECT h.since, h.until, h.wid, w.format, w.body
FROM name n JOIN head h ON h.nid = n.nid LEFT JOIN write w ON w.wid = h.wid
WHERE n.text = ?;

-- name: current_of
-- The same of several texts.
SELECT n.text, h.since, h.until, h.wid, w.format, w.body
FROM name n JOIN head h ON h.nid = n.nid LEFT JOIN write w ON w.wid = h.wid
WHERE n.text IN ({places});

-- name: visible
-- The entry in force at a valid time, of the writes before a wid.
SELECT vt, wid, gone FROM entry
WHERE nid = ? AND vt <= ? AND wid < ?
ORDER BY vt DESC, wid DESC LIMIT 1;

-- name: next_start
-- Where the next version after a valid time starts.
SELECT min(vt) FROM entry WHERE nid = ? AND vt > ?;

-- name: timeline
-- The entries from the one visible at a valid time on.
SELECT vt, wid, gone FROM entry
WHERE nid = ?1
  AND vt >= coalesce((SELECT max(vt) FROM entry WHERE nid = ?1 AND vt <= ?2), ?2);

-- name: body
-- What one write stored.
SELECT format, body FROM write WHERE wid = ?;

-- name: insert_write
-- What one write says, as it was given.
INSERT OR FAIL INTO write (wid, nid, valid_from, valid_to, format, body) VALUES (?, ?, ?, ?, ?, ?);

-- name: insert_entry
-- Where a version starts; one that was restored may be there already.
INSERT OR IGNORE INTO entry (nid, vt, wid, gone) VALUES (?, ?, ?, ?);

-- name: head
-- What is visible around the last write of an object.
SELECT since, until, wid, fields FROM head WHERE nid = ?;

-- name: save_head
-- What is visible now.
INSERT OR FAIL INTO head (nid, since, until, wid, fields) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (nid) DO UPDATE SET
  since = excluded.since, until = excluded.until, wid = excluded.wid, fields = excluded.fields;

-- name: next_until
-- When the first head's time will be over.
SELECT until FROM head WHERE until IS NOT NULL ORDER BY until LIMIT 1;

-- name: stale_heads
-- Heads whose time is over, because a version from the future has begun.
SELECT nid FROM head WHERE until <= ? ORDER BY until LIMIT ?;

-- name: history_up
-- Entries of one object by (valid time, wid), after a position.
SELECT e.vt, e.wid, e.gone, t.instant
FROM entry e JOIN tx t ON t.seq = e.wid >> 14
WHERE e.nid = :nid AND e.vt BETWEEN :low AND :high AND e.wid < :bound
  AND (e.vt, e.wid) > (:vt, :wid)
  AND (:corrections OR NOT EXISTS (
    SELECT 1 FROM entry n
    WHERE n.nid = e.nid AND n.vt = e.vt AND n.wid > e.wid AND n.wid < :bound))
ORDER BY e.vt, e.wid LIMIT :limit;

-- name: history_down
-- The same, reversed, before a position.
SELECT e.vt, e.wid, e.gone, t.instant
FROM entry e JOIN tx t ON t.seq = e.wid >> 14
WHERE e.nid = :nid AND e.vt BETWEEN :low AND :high AND e.wid < :bound
  AND (e.vt, e.wid) < (:vt, :wid)
  AND (:corrections OR NOT EXISTS (
    SELECT 1 FROM entry n
    WHERE n.nid = e.nid AND n.vt = e.vt AND n.wid > e.wid AND n.wid < :bound))
ORDER BY e.vt DESC, e.wid DESC LIMIT :limit;

-- name: feed
-- Transactions after a sequence.
SELECT seq, instant, key FROM tx WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: writes_of
-- The writes of one transaction in their order.
SELECT n.text, w.valid_from, w.valid_to, w.format, w.body
FROM write w JOIN name n ON n.nid = w.nid
WHERE w.wid >= ? AND w.wid < ? ORDER BY w.wid;

-- name: text_of
-- The text that a number stands for.
SELECT text FROM name WHERE nid = ?;

-- name: fields
-- Everything that may be searched.
SELECT fid, kind, name, type FROM field ORDER BY fid;

-- name: fields_count
-- Tells whether something has been declared since.
SELECT max(fid) FROM field;

-- name: insert_field
-- A field of a kind that may be searched from now on.
INSERT INTO field (kind, name, type) VALUES (?, ?, ?) RETURNING fid;

-- name: insert_ever
-- An object has had this value.
INSERT OR IGNORE INTO ever (fid, value, place, nid) VALUES (?, ?, ?, ?);

-- name: insert_present
-- An object shows this value now; a place is one object's for ever.
INSERT OR IGNORE INTO present (fid, value, place, nid) VALUES (?, ?, ?, ?);

-- name: delete_present
-- It no longer does.
DELETE FROM present WHERE fid = ? AND value = ? AND place = ?;

-- name: objects_ever
-- Every object that has had some value in a field.
SELECT DISTINCT nid FROM ever WHERE fid = ?;

-- name: writes_in
-- The puts that an object's timeline refers to.
SELECT DISTINCT w.wid, w.format, w.body FROM entry e JOIN write w ON w.wid = e.wid
WHERE e.nid = ? AND w.body IS NOT NULL;

-- name: find_now
-- Candidates among what is visible now, with the fields of each; conditions follow.
SELECT d.nid, d.value, h.fields FROM present d JOIN head h ON h.nid = d.nid

-- name: find_then
-- Candidates among all that was ever visible; conditions follow.
SELECT d.nid, d.value, NULL FROM ever d

-- name: find_equal
-- Another equality, by its key; one join each.
JOIN present w{n} ON w{n}.fid = ? AND w{n}.value = ? AND w{n}.place = d.place

-- name: find_one
-- The driving field has one value.
WHERE d.fid = ? AND d.value = ?

-- name: find_range
-- The driving field lies between.
WHERE d.fid = ? AND d.value >= ? AND d.value < ?

-- name: after_place
-- After an id.
AND d.place > ?

-- name: after_up
-- After a value and an id.
AND (d.value, d.place) > (?, ?)

-- name: after_down
-- After a value, which descends, and an id, which ascends.
AND d.value <= ? AND (d.value < ? OR d.place > ?)

-- name: by_place
-- By id.
ORDER BY d.place

-- name: by_value
-- By value, then id.
ORDER BY d.value, d.place

-- name: by_value_down
-- By value, descending, then id.
ORDER BY d.value DESC, d.place

-- name: has_stale_head
-- Whether a version from the future has begun that no head shows yet.
SELECT EXISTS (SELECT 1 FROM head WHERE until <= ?)

-- name: items
-- Items of a list: a short text, or the JSON of a piece.
SELECT n.text, p.body FROM item i
LEFT JOIN name n ON n.nid = i.number >> 1 AND i.number & 1 = 0
LEFT JOIN piece p ON p.pid = i.number >> 1 AND i.number & 1
WHERE i.slot >= ? AND i.slot < ? ORDER BY i.slot;

-- name: list
-- The list that a list continues, and from where on its items are its own.
SELECT parent, shared FROM list WHERE lid = ?;

-- name: insert_list
-- A list, which may continue another one.
INSERT INTO list (parent, shared) VALUES (?, ?) RETURNING lid;

-- name: has_item
-- Whether a place in a list is taken.
SELECT EXISTS (SELECT 1 FROM item WHERE slot = ?);

-- name: insert_item
-- An item of a list.
INSERT INTO item (slot, number) VALUES (?, ?);

-- name: piece
-- The bytes of a large value.
SELECT body FROM piece WHERE pid = ?;

-- name: find_piece
-- The number of a large value.
SELECT pid FROM piece WHERE address = ? AND shared = 1;

-- name: insert_piece
-- A large value that was not known.
INSERT INTO piece (address, shared, body) VALUES (?, ?, ?) RETURNING pid
;

-- name: count_tx
-- Transactions in the file.
SELECT count(*) FROM tx WHERE seq > 0;

-- name: disordered_tx
-- Transactions whose instant is before that of the one before.
SELECT seq FROM (SELECT seq, instant, lag(instant) OVER (ORDER BY seq) AS before FROM tx)
WHERE instant < before;

-- name: lost_entries
-- Entries without the object, the transaction or the document that they stand for.
SELECT e.nid, e.vt, n.text FROM entry e
LEFT JOIN name n ON n.nid = e.nid
LEFT JOIN write w ON w.wid = e.wid AND w.nid = e.nid
LEFT JOIN tx t ON t.seq = e.wid >> 14
WHERE n.nid IS NULL OR w.wid IS NULL OR t.seq IS NULL OR (w.body IS NULL AND e.gone = 0);

-- name: all_pieces
-- Every large value.
SELECT pid, address, body FROM piece;

-- name: count_puts
-- Documents in the file.
SELECT count(*) FROM write WHERE body IS NOT NULL;

-- name: all_puts
-- Every document in the file.
SELECT w.wid, w.nid, n.text, w.format, w.body FROM write w JOIN name n ON n.nid = w.nid
WHERE w.body IS NOT NULL ORDER BY w.wid;

-- name: has_ever
-- The object found by a value, whenever it had it.
SELECT nid FROM ever WHERE fid = ? AND value = ? AND place = ?;

-- name: has_present
-- The object found by a value now.
SELECT nid FROM present WHERE fid = ? AND value = ? AND place = ?;

-- name: count_present
-- Values that something is found by now.
SELECT count(*) FROM present;

-- name: all_heads
-- Every head.
SELECT h.nid, n.text, h.since, h.until, h.wid, h.fields FROM head h JOIN name n ON n.nid = h.nid;

-- name: save_fields
-- The values that a head is found by.
UPDATE head SET fields = ? WHERE nid = ?
