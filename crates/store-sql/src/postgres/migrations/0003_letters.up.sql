-- Letters: requests that others write, each in a transaction of their own.
CREATE TABLE @inbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    body       text NOT NULL
);

-- Letters that nothing came of, for people.
CREATE TABLE @inbox_refused (
    id         bigint PRIMARY KEY,
    written_at timestamptz NOT NULL,
    refused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason     text NOT NULL,
    body       text NOT NULL
);

-- Jobs whose work was committed together with their acknowledgement: each can be there once.
CREATE TABLE @acknowledged (
    shard  int NOT NULL,
    number bigint NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (shard, number)
);

-- Until when an owner keeps its shard. A table of its own: it is changed every second.
CREATE TABLE @tenures (
    shard int PRIMARY KEY,
    epoch bigint NOT NULL,
    until timestamptz NOT NULL
) WITH (fillfactor = 10);

-- Schedules a job when the caller's transaction is committed: `job` is said as over HTTP.
CREATE FUNCTION @hence_add(job json) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    letter bigint;
BEGIN
    IF json_typeof(job) <> 'object' THEN
        RAISE EXCEPTION 'a job is an object, such as {"url": "https://…", "in": "5m"}'
            USING ERRCODE = 'HE006';
    END IF;
    INSERT INTO @inbox (body) VALUES ('{"add":' || job::text || '}') RETURNING id INTO letter;
    PERFORM pg_notify('hence_letters', '@');
    RETURN letter;
END $$;

-- The work of a job is done when the caller's transaction is committed. `job` is the job as it was
-- handed out. Fails when another transaction has done so before: this one must then be rolled back.
CREATE FUNCTION @hence_ack(job json, result json DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    in_shard  int := split_part(job->>'token', '.', 1);
    in_number bigint := job->>'number';
BEGIN
    IF in_shard IS NULL OR in_number IS NULL OR job->>'queue' IS NULL OR job->>'id' IS NULL THEN
        RAISE EXCEPTION 'the job must be given as it was handed out: queue, id, number and token'
            USING ERRCODE = 'HE006';
    END IF;
    BEGIN
        INSERT INTO @acknowledged (shard, number) VALUES (in_shard, in_number);
    EXCEPTION WHEN unique_violation THEN
        RAISE EXCEPTION 'job %/% was acknowledged before: roll back', job->>'queue', job->>'id'
            USING ERRCODE = 'HE007';
    END;
    INSERT INTO @inbox (body) VALUES (json_build_object('done', json_strip_nulls(json_build_object(
        'queue', job->>'queue', 'key', job->>'key', 'id', job->>'id', 'number', in_number,
        'answer', CASE WHEN result IS NULL THEN NULL
                       ELSE json_build_object('result', result) END)))::text);
    PERFORM pg_notify('hence_letters', '@');
END $$;
