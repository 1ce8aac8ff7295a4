-- Sources with their text, and segments: arrays that are derived from it.

CREATE TABLE source (
    id       INTEGER PRIMARY KEY,
    path     TEXT NOT NULL UNIQUE,
    category TEXT NOT NULL,
    day      INTEGER,
    text     TEXT NOT NULL,
    pieces   TEXT NOT NULL,
    segment  INTEGER NOT NULL,
    ordinal  INTEGER NOT NULL
) STRICT;
CREATE INDEX source_segment ON source (segment, ordinal);
CREATE TABLE term (number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE segment (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    pieces    INTEGER NOT NULL,
    embedder  TEXT,
    dimension INTEGER
) STRICT;
CREATE TABLE segment_array (
    segment INTEGER NOT NULL REFERENCES segment (id) ON DELETE CASCADE,
    name    TEXT NOT NULL,
    body    BLOB NOT NULL,
    PRIMARY KEY (segment, name)
) STRICT;
CREATE TABLE change (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL) STRICT;
INSERT INTO change VALUES (1, 0);
