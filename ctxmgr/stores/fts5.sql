-- Every statement of the full-text index, which is a separate file.

-- name: layout
-- One row per object, and its words in a contentless index, which does not store the text.
CREATE TABLE place (one INTEGER PRIMARY KEY CHECK (one = 1), origin TEXT NOT NULL,
                    sequence INTEGER NOT NULL) STRICT;
CREATE TABLE entry (id INTEGER PRIMARY KEY, object_id TEXT NOT NULL UNIQUE,
                    sequence INTEGER NOT NULL) STRICT;
CREATE VIRTUAL TABLE word USING fts5(text, parts, content = '', contentless_delete = 1,
                                     tokenize = 'unicode61 remove_diacritics 2');

-- name: remove_layout
-- Drops everything; the index can be rebuilt.
DROP TABLE IF EXISTS word; DROP TABLE IF EXISTS entry; DROP TABLE IF EXISTS place;

-- name: place
-- How far the index has followed the store.
SELECT origin, sequence FROM place;

-- name: move
-- Saves how far the index has followed the store.
INSERT OR REPLACE INTO place VALUES (1, ?, ?);

-- name: entry
-- The row of an object.
SELECT id FROM entry WHERE object_id = ?;

-- name: add_entry
-- A new object, or a newer version of an existing one.
INSERT INTO entry (object_id, sequence) VALUES (?, ?)
ON CONFLICT (object_id) DO UPDATE SET sequence = excluded.sequence
RETURNING id;

-- name: add_words
-- The words of an object.
INSERT INTO word (rowid, text, parts) VALUES (?, ?, ?);

-- name: remove_words
-- The words of the previous version.
DELETE FROM word WHERE rowid = ?;

-- name: search
-- Objects that contain some of the words, best first. A word inside a longer name counts half.
SELECT entry.object_id, -bm25(word, 1.0, 0.5) AS score
FROM word JOIN entry ON entry.id = word.rowid
WHERE word MATCH ?
ORDER BY score DESC, entry.object_id;
