-- Every statement of the SQLite store. Those of find are joined from several parts.

-- name: store_name
-- The store's random name, which tokens begin with.
SELECT lower(hex(digest)) FROM tx WHERE seq = 0;

-- name: rename_store
-- A new random name for a copy, so that tokens of the original do not match in it.
UPDATE tx SET digest = randomblob(4) WHERE seq = 0;

-- name: last_tx
-- The newest transaction.
SELECT seq, instant FROM tx WHERE seq > 0 ORDER BY seq DESC LIMIT 1;

-- name: tx_by_key
-- The transaction with a caller's key.
SELECT seq, instant, digest FROM tx WHERE key = ?;

-- name: tx_by_seq
-- The transaction with a sequence.
SELECT seq, instant, key, digest FROM tx WHERE seq = ?;

-- name: mark_of
-- The mark of a transaction without a key: its own, or that of the nearest one before it.
SELECT digest FROM tx
WHERE seq <= ?1 AND seq > max(?1 - ?2, 0) AND key IS NULL AND digest IS NOT NULL
ORDER BY seq DESC LIMIT 1;

-- name: insert_tx
-- A transaction; without a caller's key, the digest is a mark or NULL.
INSERT OR FAIL INTO tx (seq, instant, key, digest) VALUES (?, ?, ?, ?);

-- name: find_name
-- The number of a text.
SELECT nid FROM name WHERE text = ?;

-- name: find_names
-- The numbers of several texts; texts without a number are left out.
SELECT text, nid FROM name WHERE text IN ({places});

-- name: last_name
-- The highest number of a text.
SELECT max(nid) FROM name;

-- name: insert_name
-- A new text.
INSERT OR FAIL INTO name (nid, text) VALUES (?, ?);

-- name: current
-- The version in the head, which is visible now unless it has a future bound: the hottest read.
SELECT h.since, h.until, h.wid, w.format, w.body
FROM name n JOIN head h ON h.nid = n.nid LEFT JOIN write w ON w.wid = h.wid
WHERE n.text = ?;

-- name: current_of
-- The same for several objects.
SELECT n.text, h.since, h.until, h.wid, w.format, w.body
FROM name n JOIN head h ON h.nid = n.nid LEFT JOIN write w ON w.wid = h.wid
WHERE n.text IN ({places});

-- name: visible
-- The entry in force at a valid time, among the writes before a wid.
SELECT vt, wid, gone FROM entry
WHERE nid = ? AND vt <= ? AND wid < ?
ORDER BY vt DESC, wid DESC LIMIT 1;

-- name: last_put
-- The last put of an object, whenever it is or was valid.
SELECT wid FROM entry WHERE nid = ? AND gone = 0 ORDER BY wid DESC LIMIT 1;

-- name: next_start
-- Where the next version after a valid time starts.
SELECT min(vt) FROM entry WHERE nid = ? AND vt > ?;

-- name: timeline
-- The entries from the one visible at a valid time onwards.
SELECT vt, wid, gone FROM entry
WHERE nid = ?1
  AND vt >= coalesce((SELECT max(vt) FROM entry WHERE nid = ?1 AND vt <= ?2), ?2);

-- name: body
-- The format and body of a write.
SELECT format, body FROM write WHERE wid = ?;

-- name: insert_write
-- A put or delete, with its times as given.
INSERT OR FAIL INTO write (wid, nid, valid_from, valid_to, format, body) VALUES (?, ?, ?, ?, ?, ?);

-- name: insert_entry
-- Where a version starts; a restored one may exist already.
INSERT OR IGNORE INTO entry (nid, vt, wid, gone) VALUES (?, ?, ?, ?);

-- name: head
-- The head of an object.
SELECT since, until, wid, fields FROM head WHERE nid = ?;

-- name: save_head
-- The new head of an object.
INSERT OR FAIL INTO head (nid, since, until, wid, fields) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (nid) DO UPDATE SET
  since = excluded.since, until = excluded.until, wid = excluded.wid, fields = excluded.fields;

-- name: next_until
-- When the first head expires.
SELECT until FROM head WHERE until IS NOT NULL ORDER BY until LIMIT 1;

-- name: stale_heads
-- Heads that have expired, because a later version has begun.
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
-- The text of a number.
SELECT text FROM name WHERE nid = ?;

-- name: fields
-- All searchable fields.
SELECT fid, kind, name, type FROM field ORDER BY fid;

-- name: fields_count
-- The highest field number, which grows when a field is declared.
SELECT max(fid) FROM field;

-- name: insert_field
-- A new searchable field of a kind.
INSERT INTO field (kind, name, type) VALUES (?, ?, ?) RETURNING fid;

-- name: insert_ever
-- An object has had this value.
INSERT OR IGNORE INTO ever (fid, value, place, nid) VALUES (?, ?, ?, ?);

-- name: insert_present
-- An object has this value now; OR IGNORE is safe, since a place belongs to one object.
INSERT OR IGNORE INTO present (fid, value, place, nid) VALUES (?, ?, ?, ?);

-- name: delete_present
-- An object no longer has this value.
DELETE FROM present WHERE fid = ? AND value = ? AND place = ?;

-- name: objects_ever
-- Every object that has ever had a value in a field.
SELECT DISTINCT nid FROM ever WHERE fid = ?;

-- name: writes_in
-- The puts in an object's timeline.
SELECT DISTINCT w.wid, w.format, w.body FROM entry e JOIN write w ON w.wid = e.wid
WHERE e.nid = ? AND w.body IS NOT NULL;

-- name: find_now
-- Candidates among the visible versions, with their fields; conditions follow.
SELECT d.nid, d.value, h.fields FROM present d JOIN head h ON h.nid = d.nid

-- name: find_then
-- Candidates among all versions; conditions follow.
SELECT d.nid, d.value, NULL FROM ever d

-- name: find_equal
-- A join for another equality.
JOIN present w{n} ON w{n}.fid = ? AND w{n}.value = ? AND w{n}.place = d.place

-- name: find_one
-- The driving field equals a value.
WHERE d.fid = ? AND d.value = ?

-- name: find_range
-- The driving field is in a range.
WHERE d.fid = ? AND d.value >= ? AND d.value < ?

-- name: after_place
-- After an id.
AND d.place > ?

-- name: after_up
-- After a value and an id.
AND (d.value, d.place) > (?, ?)

-- name: after_down
-- After a value (descending) and an id (ascending).
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
-- Whether a version has begun that no head shows yet.
SELECT EXISTS (SELECT 1 FROM head WHERE until <= ?)

-- name: items
-- Items of a list: each a short text, or the JSON of a piece. The lowest bit of number says which.
SELECT n.text, p.body FROM item i
LEFT JOIN name n ON n.nid = i.number >> 1 AND i.number & 1 = 0
LEFT JOIN piece p ON p.pid = i.number >> 1 AND i.number & 1
WHERE i.slot >= ? AND i.slot < ? ORDER BY i.slot;

-- name: list
-- The list that a list continues, and how many leading items they share.
SELECT parent, shared FROM list WHERE lid = ?;

-- name: insert_list
-- A new list, which may continue another one.
INSERT INTO list (parent, shared) VALUES (?, ?) RETURNING lid;

-- name: has_item
-- Whether a slot of a list is taken.
SELECT EXISTS (SELECT 1 FROM item WHERE slot = ?);

-- name: insert_item
-- An item of a list.
INSERT INTO item (slot, number) VALUES (?, ?);

-- name: piece
-- The bytes of a large value.
SELECT body FROM piece WHERE pid = ?;

-- name: find_piece
-- The number of a large value with a hash.
SELECT pid FROM piece WHERE address = ? AND shared = 1;

-- name: insert_piece
-- A new large value.
INSERT INTO piece (address, shared, body) VALUES (?, ?, ?) RETURNING pid;

-- name: count_tx
-- The number of transactions.
SELECT count(*) FROM tx WHERE seq > 0;

-- name: disordered_tx
-- Transactions whose instant is before that of the previous one.
SELECT seq FROM (SELECT seq, instant, lag(instant) OVER (ORDER BY seq) AS before FROM tx)
WHERE instant < before;

-- name: lost_entries
-- Entries whose object, transaction or document is missing.
SELECT e.nid, e.vt, n.text FROM entry e
LEFT JOIN name n ON n.nid = e.nid
LEFT JOIN write w ON w.wid = e.wid AND w.nid = e.nid
LEFT JOIN tx t ON t.seq = e.wid >> 14
WHERE n.nid IS NULL OR w.wid IS NULL OR t.seq IS NULL OR (w.body IS NULL AND e.gone = 0);

-- name: all_pieces
-- Every large value.
SELECT pid, address, body FROM piece;

-- name: count_puts
-- The number of stored documents.
SELECT count(*) FROM write WHERE body IS NOT NULL;

-- name: all_puts
-- Every stored document.
SELECT w.wid, w.nid, n.text, w.format, w.body FROM write w JOIN name n ON n.nid = w.nid
WHERE w.body IS NOT NULL ORDER BY w.wid;

-- name: has_ever
-- The object that has ever had a value.
SELECT nid FROM ever WHERE fid = ? AND value = ? AND place = ?;

-- name: has_present
-- The object that has a value now.
SELECT nid FROM present WHERE fid = ? AND value = ? AND place = ?;

-- name: count_present
-- The number of values of visible versions.
SELECT count(*) FROM present;

-- name: all_heads
-- Every head.
SELECT h.nid, n.text, h.since, h.until, h.wid, h.fields FROM head h JOIN name n ON n.nid = h.nid;

-- name: save_fields
-- The searchable values of a head.
UPDATE head SET fields = ? WHERE nid = ?


-- name: put_in
-- The put of an object in a transaction.
SELECT wid FROM write WHERE nid = ? AND wid >= ? AND wid < ? AND body IS NOT NULL;

-- name: puts_of
-- Every put of an object.
SELECT wid, format, body FROM write WHERE nid = ? AND body IS NOT NULL;

-- name: all_bodies
-- Every body.
SELECT wid, format, body FROM write WHERE body IS NOT NULL;

-- name: replace_body
-- Another body for a put.
UPDATE write SET format = ?, body = ? WHERE wid = ?;

-- name: all_items
-- Every item of every list.
SELECT slot, number FROM item;

-- name: all_lists
-- Every list.
SELECT lid FROM list;

-- name: piece_ids
-- Every large value, without its bytes.
SELECT pid FROM piece;

-- name: name_ids
-- Every number of a text.
SELECT nid FROM name;

-- name: used_names
-- The numbers of every object that was ever written.
SELECT DISTINCT nid FROM write;

-- name: delete_rows
-- Rows of a table that nothing refers to.
DELETE FROM {table} WHERE {column} IN ({places})
