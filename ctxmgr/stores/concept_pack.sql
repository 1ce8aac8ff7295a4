-- name: layout
-- Format 1 of a concept pack. Every value is plain data; the file has no triggers and no views.
CREATE TABLE manifest (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE concepts (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    gloss TEXT NOT NULL,
    is_primary INTEGER NOT NULL,
    is_root INTEGER NOT NULL
) STRICT;
CREATE INDEX concepts_primary ON concepts (number) WHERE is_primary = 1;
CREATE INDEX concepts_root ON concepts (name, id) WHERE is_root = 1;
CREATE TABLE names (
    name TEXT NOT NULL COLLATE NOCASE,
    concept INTEGER NOT NULL REFERENCES concepts (number),
    weight REAL NOT NULL,
    PRIMARY KEY (name, concept)
) STRICT, WITHOUT ROWID;
CREATE INDEX names_concept ON names (concept);
CREATE TABLE relations (
    source INTEGER NOT NULL REFERENCES concepts (number),
    kind TEXT NOT NULL,
    target INTEGER NOT NULL REFERENCES concepts (number),
    PRIMARY KEY (source, kind, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX relations_target ON relations (target, kind, source);
CREATE TABLE vectors (
    concept INTEGER PRIMARY KEY REFERENCES concepts (number),
    embedder TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- name: manifest
SELECT key, value FROM manifest ORDER BY key LIMIT 64;

-- name: concept
SELECT id, name, gloss, is_primary FROM concepts WHERE id = :id;

-- name: roots
SELECT id, name, gloss, is_primary FROM concepts
WHERE is_root = 1 ORDER BY name, id LIMIT :limit OFFSET :offset;

-- name: children
-- More specific concepts, one step down.
SELECT DISTINCT c.id, c.name, c.gloss, c.is_primary
FROM concepts AS p
JOIN relations AS r ON r.target = p.number AND r.kind IN ('is_a', 'instance_of')
JOIN concepts AS c ON c.number = r.source
WHERE p.id = :id ORDER BY c.name, c.id LIMIT :limit OFFSET :offset;

-- name: parents
-- More general concepts, one step up.
SELECT DISTINCT p.id, p.name, p.gloss, p.is_primary
FROM concepts AS c
JOIN relations AS r ON r.source = c.number AND r.kind IN ('is_a', 'instance_of')
JOIN concepts AS p ON p.number = r.target
WHERE c.id = :id ORDER BY p.name, p.id LIMIT :limit;

-- name: related
-- What a concept is connected with, other than its parents and children.
SELECT o.id, o.name, o.gloss, o.is_primary, r.kind
FROM concepts AS c
JOIN relations AS r ON r.source = c.number AND r.kind NOT IN ('is_a', 'instance_of')
JOIN concepts AS o ON o.number = r.target
WHERE c.id = :id ORDER BY r.kind, o.name, o.id LIMIT :limit;

-- name: named
-- Concepts with a name in a range of names: the shortest name first, then the usual meaning.
-- SQLite takes ``weight`` from the row that has the minimum.
SELECT id, name, gloss, is_primary FROM (
    SELECT c.id, c.name, c.gloss, c.is_primary, min(length(n.name)) AS chars, n.weight
    FROM names AS n JOIN concepts AS c ON c.number = n.concept
    WHERE n.name >= :first AND n.name < :last
    GROUP BY c.number
) ORDER BY chars, weight DESC, id LIMIT :limit;

-- name: counts
SELECT
    (SELECT count(*) FROM concepts),
    (SELECT count(*) FROM concepts WHERE is_primary = 1),
    (SELECT count(*) FROM relations);

-- name: primaries
SELECT number, id, name, gloss FROM concepts WHERE is_primary = 1 ORDER BY number LIMIT :limit;

-- name: primary_names
SELECT n.concept, n.name, n.weight
FROM names AS n JOIN concepts AS c ON c.number = n.concept
WHERE c.is_primary = 1 ORDER BY n.concept, n.name;

-- name: primary_vectors
SELECT v.concept, v.embedder, v.dimension, v.body
FROM vectors AS v JOIN concepts AS c ON c.number = v.concept
WHERE c.is_primary = 1 ORDER BY v.concept;

-- name: primary_parents
-- Pairs of parent and child, of primary children.
SELECT DISTINCT p.id, c.id
FROM concepts AS c
JOIN relations AS r ON r.source = c.number AND r.kind IN ('is_a', 'instance_of')
JOIN concepts AS p ON p.number = r.target
WHERE c.is_primary = 1 ORDER BY p.number, c.number;

-- name: dangling
-- Relations and names of concepts that are not in the pack.
SELECT
    (SELECT count(*) FROM relations WHERE source NOT IN (SELECT number FROM concepts)
        OR target NOT IN (SELECT number FROM concepts))
    + (SELECT count(*) FROM names WHERE concept NOT IN (SELECT number FROM concepts))
    + (SELECT count(*) FROM vectors WHERE concept NOT IN (SELECT number FROM concepts));

-- name: false_roots
-- Concepts whose mark as a root does not fit their relations.
SELECT count(*) FROM concepts AS c WHERE c.is_root = EXISTS (
    SELECT 1 FROM relations AS r WHERE r.source = c.number AND r.kind IN ('is_a', 'instance_of')
);

-- name: longest
SELECT max(length(id)), max(length(name)), max(length(gloss)) FROM concepts;

-- name: add_manifest
INSERT INTO manifest (key, value) VALUES (?, ?);

-- name: add_concept
INSERT INTO concepts (number, id, name, gloss, is_primary, is_root) VALUES (?, ?, ?, ?, ?, ?);

-- name: add_name
INSERT OR IGNORE INTO names (name, concept, weight) VALUES (?, ?, ?);

-- name: add_relation
INSERT OR IGNORE INTO relations (source, kind, target) VALUES (?, ?, ?);

-- name: add_vector
INSERT INTO vectors (concept, embedder, dimension, body) VALUES (?, ?, ?, ?);
