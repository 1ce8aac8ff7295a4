-- Documents of a knowledge repository. `knowledge_vec` is created with the first vectors, because
-- its dimension is the embedder's.

CREATE VIRTUAL TABLE knowledge_fts USING fts5 (
    path, content, category UNINDEXED, tokenize = 'porter unicode61'
);
CREATE TABLE knowledge_meta (
    path         TEXT PRIMARY KEY,
    category     TEXT NOT NULL,
    modified     INTEGER NOT NULL,
    token_count  INTEGER NOT NULL,
    line_count   INTEGER NOT NULL,
    tags         TEXT NOT NULL,
    last_indexed INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    is_embedded  INTEGER NOT NULL DEFAULT 0,
    fts_row      INTEGER NOT NULL UNIQUE
) STRICT;
CREATE INDEX idx_meta_category ON knowledge_meta (category);
CREATE INDEX idx_meta_modified ON knowledge_meta (modified);
CREATE INDEX idx_meta_embedded ON knowledge_meta (is_embedded) WHERE is_embedded = 0;
CREATE TABLE knowledge_state (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    is_built  INTEGER NOT NULL,
    embedder  TEXT,
    dimension INTEGER,
    form      TEXT
) STRICT;
INSERT INTO knowledge_state VALUES (1, 0, NULL, NULL, NULL);
