-- For people: jobs with their state in words and times as times. Nothing in Hence reads these.

-- Who has a job, and until when.
CREATE VIEW @hence_leases AS
SELECT c.shard, l.queue, l.due_at, l.number, max(c.stamp) AS stamp,
    (array_agg(l.token ORDER BY c.stamp DESC))[1] AS token,
    (array_agg(l.holder ORDER BY c.stamp DESC) FILTER (WHERE l.holder IS NOT NULL))[1] AS holder,
    (array_agg(l.attempt ORDER BY c.stamp DESC) FILTER (WHERE l.attempt IS NOT NULL))[1] AS attempt,
    (array_agg(l.until ORDER BY c.stamp DESC))[1] AS until
FROM @shards s
JOIN @commits c ON c.era = s.era AND c.shard = s.shard
CROSS JOIN LATERAL unnest(c.lease_queue, c.lease_due_at, c.lease_number, c.lease_token,
    c.lease_until, c.lease_attempt, c.lease_holder)
    AS l(queue, due_at, number, token, until, attempt, holder)
GROUP BY c.shard, l.queue, l.due_at, l.number;

CREATE VIEW @hence_jobs AS
SELECT j.shard, j.queue, j.key, j.id, j.number,
    CASE
        WHEN l.stamp >= j.stamp THEN 'running'
        WHEN j.due_at <= extract(epoch FROM now()) * 1000 THEN 'ready'
        ELSE 'scheduled'
    END AS state,
    to_timestamp(j.due_at / 1000.0) AS due_at,
    to_timestamp(j.submitted_at / 1000.0) AS submitted_at,
    j.attempts, j.schedule, j.target, j.content_type, length(j.payload) AS payload_bytes,
    CASE WHEN l.stamp >= j.stamp THEN l.holder END AS holder,
    CASE WHEN l.stamp >= j.stamp THEN to_timestamp(l.until / 1000.0) END AS lease_until,
    NULL::timestamptz AS finished_at, NULL::timestamptz AS keep_until, NULL::text AS reason
FROM @jobs j
CROSS JOIN @meta m
JOIN @shards s ON s.shard = j.shard
LEFT JOIN @hence_leases l ON l.shard = j.shard AND l.queue = j.queue AND l.due_at = j.due_at
    AND l.number = j.number
WHERE j.slot = CASE WHEN j.due_at >= s.near_from AND j.due_at < s.near_until
        THEN j.due_at / m.slot_width ELSE 0 END
    AND NOT EXISTS (SELECT FROM @gone g WHERE g.slot = j.slot AND g.shard = j.shard
        AND g.due_at = j.due_at AND g.number = j.number AND g.stamp > j.stamp)
UNION ALL
SELECT shard, queue, key, id, number, outcome,
    to_timestamp(due_at / 1000.0), to_timestamp(submitted_at / 1000.0),
    attempts, schedule, target, content_type, length(payload), NULL, NULL,
    to_timestamp(finished_at / 1000.0), to_timestamp(keep_until / 1000.0), reason
FROM @history
WHERE keep_until > extract(epoch FROM now()) * 1000;

CREATE VIEW @hence_attempts AS
SELECT shard, number, attempt, ended, holder, to_timestamp(started_at / 1000.0) AS started_at,
    to_timestamp(ended_at / 1000.0) AS ended_at
FROM @attempts
UNION ALL
SELECT shard, number, last_number, last_end, last_holder, to_timestamp(last_started_at / 1000.0),
    to_timestamp(last_ended_at / 1000.0)
FROM @history WHERE last_attempt IS NOT NULL;

CREATE VIEW @hence_schedules AS
SELECT s.shard, s.id, to_timestamp(o.last / 1000.0) AS last_tick, o.fate AS last_fate,
    to_timestamp(o.decided_at / 1000.0) AS last_decided_at
FROM @schedules s
LEFT JOIN LATERAL (
    SELECT last, fate, decided_at FROM @occurrences
    WHERE shard = s.shard AND schedule = s.id ORDER BY last DESC, number DESC LIMIT 1) o ON true;

CREATE VIEW @hence_nodes AS
SELECT owner AS node, count(*) AS shards, min(acquired_at) AS since
FROM @shards WHERE owner IS NOT NULL GROUP BY owner;
