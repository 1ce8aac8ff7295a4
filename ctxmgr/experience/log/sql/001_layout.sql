-- The first layout of log.sqlite. Times are UTC milliseconds.

-- What was appended and not folded yet. A row is a batch: contiguous ticks of one session.
CREATE TABLE tail (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    tick0   INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    ts0     INTEGER NOT NULL,  -- the earliest time in the batch
    ts1     INTEGER NOT NULL,  -- the latest
    acts    INTEGER NOT NULL,  -- activations in the batch
    format  INTEGER NOT NULL,
    raw     INTEGER NOT NULL,  -- bytes of the body, decompressed
    body    BLOB NOT NULL      -- an Arrow record batch without its schema, compressed
) STRICT;
CREATE INDEX idx_tail_session_tick ON tail (session, tick0);

-- How much the tail holds, so that an append need not count.
CREATE TABLE tail_size (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    batches INTEGER NOT NULL,
    steps   INTEGER NOT NULL
) STRICT;
INSERT INTO tail_size VALUES (1, 0, 0);

-- The last tick of each session: an append is refused unless it continues after it.
CREATE TABLE session (
    session_id TEXT PRIMARY KEY,
    last_tick  INTEGER NOT NULL,
    steps      INTEGER NOT NULL
) STRICT;

-- Numbers for concept ids, which the tail uses.
CREATE TABLE concept (
    code       INTEGER PRIMARY KEY,
    concept_id TEXT NOT NULL UNIQUE
) STRICT;

-- The files of the history. A file that is not listed here is never read.
CREATE TABLE segment (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    name               TEXT NOT NULL UNIQUE,
    steps              INTEGER NOT NULL,
    acts               INTEGER NOT NULL,
    timesteps_sha256   TEXT NOT NULL,
    activations_sha256 TEXT NOT NULL,
    timesteps_bytes    INTEGER NOT NULL,
    activations_bytes  INTEGER NOT NULL
) STRICT;

-- Which ticks of which session lie in which segment.
CREATE TABLE part (
    session TEXT NOT NULL,
    tick0   INTEGER NOT NULL,
    tick1   INTEGER NOT NULL,
    ts0     INTEGER NOT NULL,
    ts1     INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    segment INTEGER NOT NULL REFERENCES segment (id) ON DELETE CASCADE
) STRICT;
CREATE INDEX idx_timesteps_session_tick ON part (session, tick0, tick1);
CREATE INDEX idx_timesteps_ts ON part (ts0, ts1);
CREATE INDEX idx_part_segment ON part (segment);

-- Files that a merge replaced, and that readers may still have open.
CREATE TABLE replaced_file (
    name  TEXT PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT;

-- Ranges of ticks that are no longer part of the log. A merge removes them from the files.
CREATE TABLE gone (
    session TEXT NOT NULL,
    tick0   INTEGER NOT NULL,
    tick1   INTEGER NOT NULL,
    PRIMARY KEY (session, tick0, tick1)
) STRICT, WITHOUT ROWID;

-- The last event of each store that the listener has recorded.
CREATE TABLE listened (
    store    TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    position INTEGER NOT NULL,
    time     INTEGER NOT NULL
) STRICT;

CREATE TABLE tags (
    id               TEXT PRIMARY KEY,
    name             TEXT NOT NULL,
    tag_type         TEXT NOT NULL,
    concept_id       TEXT,
    entity_type      TEXT,
    bud_status       TEXT,
    created_at       INTEGER NOT NULL,
    created_by       TEXT NOT NULL,
    description      TEXT,
    origin_type      TEXT,
    related_concepts TEXT NOT NULL DEFAULT '[]'  -- JSON
) STRICT;
CREATE INDEX idx_tags_name ON tags (name COLLATE NOCASE);
CREATE INDEX idx_tags_concept ON tags (concept_id);
CREATE INDEX idx_tags_type ON tags (tag_type, bud_status);

CREATE TABLE tag_applications (
    id             TEXT PRIMARY KEY,
    tag_id         TEXT NOT NULL REFERENCES tags (id),
    session_id     TEXT NOT NULL,
    target_type    TEXT NOT NULL,
    timestep_id    TEXT,
    event_id       TEXT,
    range_start    INTEGER,
    range_end      INTEGER,
    confidence     REAL NOT NULL,
    source         TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    note           TEXT,
    inherited_from TEXT REFERENCES tags (id)
) STRICT;
CREATE INDEX idx_tag_apps_tag ON tag_applications (tag_id);
CREATE INDEX idx_tag_apps_session ON tag_applications (session_id);
CREATE INDEX idx_tag_apps_timestep ON tag_applications (timestep_id);
CREATE INDEX idx_tag_apps_event ON tag_applications (session_id, event_id);

CREATE TABLE comments (
    id          TEXT PRIMARY KEY,
    session_id  TEXT NOT NULL,
    target_type TEXT NOT NULL,
    timestep_id TEXT,
    event_id    TEXT,
    range_start INTEGER,
    range_end   INTEGER,
    content     TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER
) STRICT;
CREATE INDEX idx_comments_session ON comments (session_id);

CREATE TABLE time_windows (
    id                TEXT PRIMARY KEY,
    session_id        TEXT NOT NULL,
    start_tick        INTEGER NOT NULL,
    end_tick          INTEGER NOT NULL,
    start_time        INTEGER NOT NULL,
    end_time          INTEGER NOT NULL,
    fidelity          TEXT NOT NULL,
    compression_level INTEGER NOT NULL DEFAULT 0,
    pinned            INTEGER NOT NULL DEFAULT 0,
    pinned_reason     TEXT,
    submission_ids    TEXT NOT NULL DEFAULT '[]',  -- JSON
    token_count       INTEGER NOT NULL DEFAULT 0,
    summary           TEXT,
    top_k_activations TEXT NOT NULL DEFAULT '{}',  -- JSON
    significant_tags  TEXT NOT NULL DEFAULT '[]',  -- JSON
    source_record_ids TEXT NOT NULL DEFAULT '[]',  -- JSON
    superseded_by     TEXT
) STRICT;
CREATE INDEX idx_windows_fidelity ON time_windows (fidelity);
CREATE INDEX idx_windows_session ON time_windows (session_id);
-- The fidelity of a timestep is that of its window.
CREATE INDEX idx_timesteps_fidelity ON time_windows (session_id, start_tick, end_tick, fidelity);

CREATE TABLE compressed_records (
    id                TEXT PRIMARY KEY,
    compression_level INTEGER NOT NULL,
    session_id        TEXT,
    start_time        INTEGER NOT NULL,
    end_time          INTEGER NOT NULL,
    start_tick        INTEGER,
    end_tick          INTEGER,
    summary           TEXT,
    top_k_activations TEXT NOT NULL DEFAULT '{}',  -- JSON
    significant_tags  TEXT NOT NULL DEFAULT '[]',  -- JSON
    source_record_ids TEXT NOT NULL DEFAULT '[]',  -- JSON
    token_count       INTEGER NOT NULL DEFAULT 0,
    record_count      INTEGER NOT NULL DEFAULT 0,
    superseded_by     TEXT
) STRICT;
CREATE INDEX idx_compressed_level_time ON compressed_records (compression_level, start_time);

CREATE TABLE compactions (
    id                   TEXT PRIMARY KEY,
    session_id           TEXT NOT NULL,
    "timestamp"          INTEGER NOT NULL,
    range_start          INTEGER NOT NULL,
    range_end            INTEGER NOT NULL,
    timesteps_compacted  INTEGER NOT NULL,
    tokens_before        INTEGER NOT NULL,
    tokens_after         INTEGER NOT NULL,
    summary              TEXT NOT NULL,
    summary_concept_tags TEXT NOT NULL DEFAULT '[]',  -- JSON
    top_k_activations    TEXT NOT NULL DEFAULT '{}',  -- JSON
    "trigger"            TEXT NOT NULL,
    result_level         INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_compactions_session ON compactions (session_id, range_start);
