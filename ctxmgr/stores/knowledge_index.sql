-- Every statement of the index of a knowledge repository; the layout is in ctxmgr/search/sql.

-- name: state
-- Whether everything has been indexed once, and whose vectors there are.
SELECT is_built, embedder, dimension, form FROM knowledge_state;

-- name: set_built
-- Everything has been indexed once.
UPDATE knowledge_state SET is_built = 1;

-- name: set_vectors
-- Says whose vectors the index has, and how they are stored.
UPDATE knowledge_state SET embedder = ?, dimension = ?, form = ?;

-- name: documents
-- What is known about each document.
SELECT path, category, modified, tags, content_hash FROM knowledge_meta;

-- name: document_row
-- Where a document's text is.
SELECT fts_row FROM knowledge_meta WHERE path = ?;

-- name: add_text
-- The text of a document.
INSERT INTO knowledge_fts (path, content, category) VALUES (?, ?, ?);

-- name: remove_text
-- Removes the text of a document.
DELETE FROM knowledge_fts WHERE rowid = ?;

-- name: add_document
-- What is known about a document.
INSERT INTO knowledge_meta (
    path, category, modified, token_count, line_count, tags, last_indexed, content_hash, fts_row
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: remove_document
-- Removes what is known about a document.
DELETE FROM knowledge_meta WHERE path = ?;

-- name: remove_documents
-- Removes every document.
DELETE FROM knowledge_fts; DELETE FROM knowledge_meta;

-- name: text_matches
-- The best documents for an expression, with a marked extract.
SELECT path, category, -bm25(knowledge_fts), snippet(knowledge_fts, 1, '**', '**', '…', ?4)
FROM knowledge_fts
WHERE knowledge_fts MATCH ?1 AND (?2 IS NULL OR category = ?2)
ORDER BY rank, path LIMIT ?3;

-- name: text
-- The category and the text of a document.
SELECT category, content FROM knowledge_fts
WHERE rowid = (SELECT fts_row FROM knowledge_meta WHERE path = ?);

-- name: not_embedded
-- Documents without a vector.
SELECT meta.path, meta.category, meta.content_hash, substr(text.content, 1, ?1)
FROM knowledge_meta AS meta JOIN knowledge_fts AS text ON text.rowid = meta.fts_row
WHERE meta.is_embedded = 0 LIMIT ?2;

-- name: embedded
-- A document has a vector, unless its text has changed meanwhile.
UPDATE knowledge_meta SET is_embedded = 1 WHERE path = ? AND content_hash = ? RETURNING path;

-- name: nothing_embedded
-- No document has a vector.
UPDATE knowledge_meta SET is_embedded = 0;

-- name: drop_vectors
-- Removes all vectors, and what is known about them.
DROP TABLE IF EXISTS knowledge_vec;

-- name: add_vector
-- A document's vector.
INSERT INTO knowledge_vec (path, category, embedding) VALUES (?, ?, ?);

-- name: remove_vector
-- Removes a document's vector.
DELETE FROM knowledge_vec WHERE path = ?;

-- name: nearest
-- The documents with the nearest vectors.
SELECT path, distance FROM knowledge_vec WHERE embedding MATCH ? AND k = ?;

-- name: nearest_in_category
-- The same within a category.
SELECT path, distance FROM knowledge_vec WHERE embedding MATCH ? AND k = ? AND category = ?;

-- name: vectors
-- All vectors, for a comparison without the extension.
SELECT path, embedding FROM knowledge_vec WHERE ?1 IS NULL OR category = ?1;
