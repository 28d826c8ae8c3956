-- Rows are added and dropped with their partition; hardly any is changed. `@` stands for the schema.

-- What the store was made with: one row.
CREATE TABLE @meta (
    single     boolean PRIMARY KEY DEFAULT true CHECK (single),
    shards     int NOT NULL,
    slot_width bigint NOT NULL,
    era_width  bigint NOT NULL,
    made_at    timestamptz NOT NULL DEFAULT now()
);

-- Who owns a shard, and where its rows lie. Changed when its owner changes, and every few minutes.
CREATE TABLE @shards (
    shard       int PRIMARY KEY,
    epoch       bigint NOT NULL DEFAULT 0,
    owner       text,
    acquired_at timestamptz,
    near_from   bigint NOT NULL,
    near_until  bigint NOT NULL,
    era         bigint NOT NULL
) WITH (fillfactor = 50);

-- One row a commit. The first row of an era is what all rows before it came to.
CREATE TABLE @commits (
    era              bigint NOT NULL,
    shard            int NOT NULL,
    stamp            bigint NOT NULL,
    next_number      bigint NOT NULL,
    swept_until      bigint NOT NULL,
    count_queue      text[],
    count_value      bytea[],
    advanced_id      text[],
    advanced_value   bytea[],
    lease_queue      text[],
    lease_due_at     bigint[],
    lease_number     bigint[],
    lease_token      text[],
    lease_until      bigint[],
    lease_attempt    int[],
    lease_holder     text[],
    lease_granted_at bigint[],
    PRIMARY KEY (era, shard, stamp)
) PARTITION BY LIST (era);

-- Live jobs. A row counts until `gone` has its place with a greater stamp; in partition 0 rows are
-- deleted instead.
CREATE TABLE @jobs (
    slot         bigint NOT NULL,
    shard        int NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    key          text COLLATE "C",
    id           text COLLATE "C" NOT NULL,
    name_hash    bigint NOT NULL,
    number       bigint NOT NULL,
    due_at       bigint NOT NULL,
    stamp        bigint NOT NULL,
    holds_key    boolean NOT NULL,
    attempts     int NOT NULL,
    submitted_at bigint NOT NULL,
    schedule     text COLLATE "C",
    target       text NOT NULL,
    content_type text,
    payload      bytea NOT NULL,
    body         bytea NOT NULL
) PARTITION BY LIST (slot);
CREATE INDEX jobs_due ON @jobs (shard, queue, due_at, number);
CREATE INDEX jobs_name ON @jobs (shard, name_hash);
CREATE INDEX jobs_holds_key ON @jobs (shard) WHERE holds_key;
CREATE TABLE @jobs_0 PARTITION OF @jobs FOR VALUES IN (0);

-- Places that jobs have left.
CREATE TABLE @gone (
    slot   bigint NOT NULL,
    shard  int NOT NULL,
    due_at bigint NOT NULL,
    number bigint NOT NULL,
    stamp  bigint NOT NULL
) PARTITION BY LIST (slot);
CREATE INDEX gone_place ON @gone (shard, due_at, number, stamp);

-- Finished jobs, by the slot in which their time is up. In partition 0 are dead ones, which are
-- counted when they go, and those that are kept for very long: they are deleted row by row.
CREATE TABLE @history (
    slot         bigint NOT NULL,
    shard        int NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    key          text COLLATE "C",
    id           text COLLATE "C" NOT NULL,
    name_hash    bigint NOT NULL,
    number       bigint NOT NULL,
    outcome      text NOT NULL,
    finished_at  bigint NOT NULL,
    keep_until   bigint NOT NULL,
    due_at       bigint NOT NULL,
    stamp        bigint NOT NULL,
    attempts     int NOT NULL,
    submitted_at bigint NOT NULL,
    schedule     text COLLATE "C",
    target       text NOT NULL,
    content_type text,
    reason       text,
    payload      bytea,
    body         bytea NOT NULL,
    last_nth        int,
    last_number     int,
    last_end        text,
    last_holder     text,
    last_started_at bigint,
    last_ended_at   bigint,
    last_attempt    bytea
) PARTITION BY LIST (slot);
CREATE INDEX history_name ON @history (shard, name_hash);
CREATE INDEX history_number ON @history (shard, number);
CREATE INDEX history_finished ON @history (shard, finished_at, number);
CREATE TABLE @history_0 PARTITION OF @history FOR VALUES IN (0);
CREATE INDEX history_0_keep_until ON @history_0 (shard, keep_until);

-- Attempts that ended, but for the last one of a finished job, which lies with it.
CREATE TABLE @attempts (
    shard      int NOT NULL,
    number     bigint NOT NULL,
    stamp      bigint NOT NULL,
    nth        int NOT NULL,
    attempt    int NOT NULL,
    ended      text NOT NULL,
    holder     text NOT NULL,
    started_at bigint NOT NULL,
    ended_at   bigint NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (shard, number, stamp, nth)
);

CREATE TABLE @schedules (
    shard    int NOT NULL,
    id       text COLLATE "C" NOT NULL,
    stamp    bigint NOT NULL,
    body     bytea NOT NULL,
    progress bytea NOT NULL,
    PRIMARY KEY (shard, id)
);

CREATE TABLE @occurrences (
    shard      int NOT NULL,
    schedule   text COLLATE "C" NOT NULL,
    last       bigint NOT NULL,
    number     bigint NOT NULL,
    first      bigint NOT NULL,
    fate       text NOT NULL,
    decided_at bigint NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (shard, schedule, last, number)
);

CREATE TABLE @queues (
    shard int NOT NULL,
    name  text COLLATE "C" NOT NULL,
    body  bytea NOT NULL,
    PRIMARY KEY (shard, name)
);

-- Whether a batch may be written now: the first statement of every commit. A refusal is an error,
-- so that nothing that was sent behind it takes effect. Locks the shard until the commit ends.
CREATE FUNCTION @fence(
    in_shard int, in_epoch bigint, in_stamp bigint,
    in_from bigint, in_until bigint, in_era bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held @shards%ROWTYPE;
    last bigint;
BEGIN
    SELECT * INTO held FROM @shards WHERE shard = in_shard FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no shard %', in_shard USING ERRCODE = 'HE005';
    END IF;
    IF held.owner IS NULL OR held.epoch <> in_epoch THEN
        RAISE EXCEPTION 'shard % has epoch % now', in_shard, held.epoch USING ERRCODE = 'HE001';
    END IF;
    SELECT stamp INTO last FROM @commits
    WHERE era = held.era AND shard = in_shard ORDER BY stamp DESC LIMIT 1;
    last := greatest(last, in_epoch << 40);
    IF in_stamp <= last THEN
        RAISE EXCEPTION 'batch % was applied before', in_stamp USING ERRCODE = 'HE003';
    END IF;
    IF in_stamp > last + 1 THEN
        RAISE EXCEPTION 'the last batch is %', last USING ERRCODE = 'HE002';
    END IF;
    IF (held.near_from, held.near_until, held.era) <> (in_from, in_until, in_era) THEN
        RAISE EXCEPTION 'the rows of shard % lie elsewhere now', in_shard USING ERRCODE = 'HE004';
    END IF;
END $$;
