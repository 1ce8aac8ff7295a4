-- Every statement of the search index of the layers; the layout is in ctxmgr/search/sql.

-- name: change
-- A number that every write changes.
SELECT number FROM change;

-- name: count_change
-- Marks a write.
UPDATE change SET number = number + 1;

-- name: mark
-- How far the index has followed what it is derived from.
SELECT mark FROM change;

-- name: set_mark
-- The index has followed so far.
UPDATE change SET mark = ?;

-- name: segment_counts
-- How many sources of each segment have been neither removed nor replaced.
SELECT segment, count(*) FROM source GROUP BY segment;

-- name: places
-- The sources of a segment.
SELECT ordinal, path, category FROM source WHERE segment = ?;

-- name: ordinals
-- The places of a segment's sources.
SELECT ordinal FROM source WHERE segment = ?;

-- name: piece
-- The category and the text of a piece of a source.
SELECT category, substr(text, (place ->> 0) + 1, (place ->> 1) - (place ->> 0))
FROM (
    SELECT category, text, json_extract(pieces, '$[' || ?2 || ']') AS place
    FROM source WHERE path = ?1
) WHERE place IS NOT NULL;

-- name: segment_sources
-- The sources of a segment that have been neither removed nor replaced.
SELECT ordinal, path, category, day, text, pieces FROM source WHERE segment = ? ORDER BY ordinal;

-- name: segment_paths
-- The places of a segment's sources.
SELECT id, ordinal FROM source WHERE segment = ? ORDER BY ordinal;

-- name: add_source
-- A new source.
INSERT INTO source (path, category, day, text, pieces, segment, ordinal)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: move_source
-- Where a source is after a merge.
UPDATE source SET segment = ?, ordinal = ? WHERE id = ?;

-- name: remove_source
-- Removes a source; its arrays stay until they are merged.
DELETE FROM source WHERE path = ? RETURNING id;

-- name: remove_sources
-- Removes everything but the numbers of the terms.
DELETE FROM source; DELETE FROM segment;

-- name: add_term
-- Numbers a term.
INSERT INTO term (text) VALUES (?) ON CONFLICT DO NOTHING;

-- name: term
-- The number of a term.
SELECT number FROM term WHERE text = ?;

-- name: term_text
-- The term of a number.
SELECT text FROM term WHERE number = ?;

-- name: add_segment
-- A new segment, without vectors.
INSERT INTO segment (pieces) VALUES (?) RETURNING id;

-- name: set_embedder
-- Says whose vectors a segment has.
UPDATE segment SET embedder = ?, dimension = ? WHERE id = ?;

-- name: segments
-- The segments, oldest first.
SELECT id, pieces, embedder, dimension FROM segment ORDER BY id;

-- name: remove_segment
-- Removes a segment and its arrays.
DELETE FROM segment WHERE id = ?;

-- name: add_array
-- An array of a segment.
INSERT OR REPLACE INTO segment_array (segment, name, body) VALUES (?, ?, ?);

-- name: arrays
-- The arrays of a segment.
SELECT name, body FROM segment_array WHERE segment = ?;
