CREATE TABLE transcripts (
    number INTEGER PRIMARY KEY,
    store TEXT NOT NULL,            -- '' for sessions that no store holds
    session TEXT NOT NULL,
    part INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'closed', 'finished')),
    path TEXT NOT NULL UNIQUE,      -- below the raw root
    working_path TEXT NOT NULL,     -- its path while it was open
    opening INTEGER NOT NULL,       -- bytes before the first turn of the open file
    bytes INTEGER NOT NULL,         -- of the open file; what lies behind was not acknowledged
    head TEXT NOT NULL,             -- JSON: what the head will say
    messages TEXT NOT NULL,         -- JSON: the first few messages
    sequence INTEGER NOT NULL,      -- of the last event that is in it; -1: none
    position INTEGER NOT NULL,
    touched INTEGER NOT NULL,       -- when something was added
    sha256 TEXT,
    UNIQUE (store, session, part)
) STRICT;

CREATE INDEX transcripts_status ON transcripts (status, touched);

CREATE TABLE calls (                -- tool calls whose turn is not finished yet
    number INTEGER PRIMARY KEY,
    store TEXT NOT NULL,
    session TEXT NOT NULL,
    object_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    call TEXT NOT NULL,             -- JSON
    sequence INTEGER NOT NULL,
    position INTEGER NOT NULL,
    UNIQUE (store, session, object_id)
) STRICT;

CREATE TABLE positions (
    store TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    position INTEGER NOT NULL,
    system_time INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
