-- Every statement of the full-text index, which is a file of its own.

-- name: layout
-- One row per object, and its words in an index that does not keep the text.
CREATE TABLE place (one INTEGER PRIMARY KEY CHECK (one = 1), origin TEXT NOT NULL,
                    sequence INTEGER NOT NULL) STRICT;
CREATE TABLE entry (id INTEGER PRIMARY KEY, object_id TEXT NOT NULL UNIQUE,
                    sequence INTEGER NOT NULL) STRICT;
CREATE VIRTUAL TABLE word USING fts5(text, parts, content = '', contentless_delete = 1,
                                     tokenize = 'unicode61 remove_diacritics 2');

-- name: remove_layout
-- Everything, to begin anew: the index is derived.
DROP TABLE IF EXISTS word; DROP TABLE IF EXISTS entry; DROP TABLE IF EXISTS place;

-- name: place
-- How far the store has been followed.
SELECT origin, sequence FROM place;

-- name: move
-- Notes how far the store has been followed.
INSERT OR REPLACE INTO place VALUES (1, ?, ?);

-- name: entry
-- What is known of an object.
SELECT id FROM entry WHERE object_id = ?;

-- name: add_entry
-- A new object, or a newer version of a known one.
INSERT INTO entry (object_id, sequence) VALUES (?, ?)
ON CONFLICT (object_id) DO UPDATE SET sequence = excluded.sequence
RETURNING id;

-- name: add_words
-- The words of an object.
INSERT INTO word (rowid, text, parts) VALUES (?, ?, ?);

-- name: remove_words
-- The words of its version before.
DELETE FROM word WHERE rowid = ?;

-- name: search
-- Objects that hold some of the words, best first. A word inside a longer name counts half.
SELECT entry.object_id, entry.sequence, -bm25(word, 1.0, 0.5) AS score
FROM word JOIN entry ON entry.id = word.rowid
WHERE word MATCH ?
ORDER BY score DESC, entry.object_id;
