-- Rows are added and dropped with their partition; hardly any is changed. `@` stands for the prefix.
-- Names are bytes here: every collation of text either pads with spaces or has another name in
-- MySQL and in MariaDB. Views show them as text. A table that is there was made by a run of this
-- text that did not come to its end: nothing of it can be taken back here.

-- What the store was made with: one row.
CREATE TABLE IF NOT EXISTS @meta (
    single     TINYINT NOT NULL DEFAULT 1 PRIMARY KEY,
    shards     INT NOT NULL,
    slot_width BIGINT NOT NULL,
    era_width  BIGINT NOT NULL,
    made_at    DATETIME(3) NOT NULL
) ENGINE = InnoDB;

-- Who owns a shard, until when nobody else can, and where its rows lie. Changed when its owner
-- changes or renews, and every few minutes.
CREATE TABLE IF NOT EXISTS @shards (
    shard       INT NOT NULL PRIMARY KEY,
    epoch       BIGINT NOT NULL DEFAULT 0,
    owner       TEXT CHARACTER SET utf8mb4,
    acquired_at DATETIME(3),
    kept_until  BIGINT NOT NULL DEFAULT 0,
    near_from   BIGINT NOT NULL,
    near_until  BIGINT NOT NULL,
    era         BIGINT NOT NULL
) ENGINE = InnoDB;

-- One row a commit. The first row of an era is what all rows before it came to.
-- counts: [[queue, hex], ...]   advanced: [[schedule, hex], ...]
-- leases: [[queue, due_at, number, token, until, attempt, holder, granted_at], ...], the last three
-- null when a lease was only extended.
CREATE TABLE IF NOT EXISTS @commits (
    era         BIGINT NOT NULL,
    shard       INT NOT NULL,
    stamp       BIGINT NOT NULL,
    next_number BIGINT NOT NULL,
    swept_until BIGINT NOT NULL,
    counts      JSON,
    advanced    JSON,
    leases      JSON,
    PRIMARY KEY (shard, stamp, era)
) ENGINE = InnoDB PARTITION BY LIST (era) (PARTITION s0 VALUES IN (0));

-- Live jobs. A row counts until `gone` has its place with a greater stamp; in partition 0 rows are
-- deleted instead.
CREATE TABLE IF NOT EXISTS @jobs (
    slot         BIGINT NOT NULL,
    shard        INT NOT NULL,
    queue        VARBINARY(64) NOT NULL,
    job_key      VARBINARY(256),
    id           VARBINARY(128) NOT NULL,
    name_hash    BIGINT NOT NULL,
    number       BIGINT NOT NULL,
    due_at       BIGINT NOT NULL,
    stamp        BIGINT NOT NULL,
    holds_key    TINYINT NOT NULL,
    attempts     INT NOT NULL,
    submitted_at BIGINT NOT NULL,
    schedule     VARBINARY(96),
    target       TEXT CHARACTER SET utf8mb4 NOT NULL,
    content_type TEXT CHARACTER SET utf8mb4,
    payload      LONGBLOB NOT NULL,
    body         LONGBLOB NOT NULL,
    PRIMARY KEY (shard, queue, due_at, number, stamp, slot),
    KEY @jobs_name (name_hash),
    KEY @jobs_holds_key (shard, holds_key)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC PARTITION BY LIST (slot) (PARTITION s0 VALUES IN (0));

-- Places that jobs have left.
CREATE TABLE IF NOT EXISTS @gone (
    slot   BIGINT NOT NULL,
    shard  INT NOT NULL,
    due_at BIGINT NOT NULL,
    number BIGINT NOT NULL,
    stamp  BIGINT NOT NULL,
    PRIMARY KEY (slot, shard, due_at, number, stamp)
) ENGINE = InnoDB PARTITION BY LIST (slot) (PARTITION s0 VALUES IN (0));

-- Finished jobs, by the slot in which their time is up. In partition 0 are dead ones, which are
-- counted when they go, and those that are kept for very long: they are deleted row by row.
CREATE TABLE IF NOT EXISTS @history (
    slot         BIGINT NOT NULL,
    shard        INT NOT NULL,
    queue        VARBINARY(64) NOT NULL,
    job_key      VARBINARY(256),
    id           VARBINARY(128) NOT NULL,
    name_hash    BIGINT NOT NULL,
    number       BIGINT NOT NULL,
    outcome      VARCHAR(16) CHARACTER SET ascii NOT NULL,
    finished_at  BIGINT NOT NULL,
    keep_until   BIGINT NOT NULL,
    due_at       BIGINT NOT NULL,
    stamp        BIGINT NOT NULL,
    attempts     INT NOT NULL,
    submitted_at BIGINT NOT NULL,
    schedule     VARBINARY(96),
    target       TEXT CHARACTER SET utf8mb4 NOT NULL,
    content_type TEXT CHARACTER SET utf8mb4,
    reason       TEXT CHARACTER SET utf8mb4,
    payload      LONGBLOB,
    body         LONGBLOB NOT NULL,
    last_nth     INT,
    last_number  INT,
    last_end     VARCHAR(16) CHARACTER SET ascii,
    last_holder  VARBINARY(128),
    last_started_at BIGINT,
    last_ended_at   BIGINT,
    last_attempt LONGBLOB,
    PRIMARY KEY (shard, number, stamp, slot),
    KEY @history_name (name_hash),
    KEY @history_finished (shard, finished_at, number),
    KEY @history_keep_until (shard, keep_until)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC PARTITION BY LIST (slot) (PARTITION s0 VALUES IN (0));

-- Attempts that ended, but for the last one of a finished job, which lies with it.
CREATE TABLE IF NOT EXISTS @attempts (
    shard      INT NOT NULL,
    number     BIGINT NOT NULL,
    stamp      BIGINT NOT NULL,
    nth        INT NOT NULL,
    attempt    INT NOT NULL,
    ended      VARCHAR(16) CHARACTER SET ascii NOT NULL,
    holder     VARBINARY(128) NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL,
    body       LONGBLOB NOT NULL,
    PRIMARY KEY (shard, number, stamp, nth)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS @schedules (
    shard    INT NOT NULL,
    id       VARBINARY(96) NOT NULL,
    stamp    BIGINT NOT NULL,
    body     LONGBLOB NOT NULL,
    progress LONGBLOB NOT NULL,
    PRIMARY KEY (shard, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS @occurrences (
    shard      INT NOT NULL,
    schedule   VARBINARY(96) NOT NULL,
    last_at    BIGINT NOT NULL,
    number     BIGINT NOT NULL,
    first_at   BIGINT NOT NULL,
    fate       VARCHAR(16) CHARACTER SET ascii NOT NULL,
    decided_at BIGINT NOT NULL,
    body       LONGBLOB NOT NULL,
    PRIMARY KEY (shard, schedule, last_at, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS @queues (
    shard INT NOT NULL,
    name  VARBINARY(64) NOT NULL,
    body  LONGBLOB NOT NULL,
    PRIMARY KEY (shard, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
