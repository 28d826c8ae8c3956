-- For people: jobs with their state in words and times as times (UTC). Nothing in Hence reads these.

-- What was handed out lately, and what of it was extended.
CREATE OR REPLACE VIEW @leases_view AS
SELECT c.shard, l.queue, l.due_at, l.number, c.stamp, l.token, l.lease_until, l.attempt, l.holder
FROM @shards s
JOIN @commits c ON c.era = s.era AND c.shard = s.shard
JOIN JSON_TABLE(c.leases, '$[*]' COLUMNS (
    queue       VARCHAR(64) PATH '$[0]',
    due_at      BIGINT PATH '$[1]',
    number      BIGINT PATH '$[2]',
    token       VARCHAR(64) PATH '$[3]',
    lease_until BIGINT PATH '$[4]',
    attempt     INT PATH '$[5]',
    holder      VARCHAR(128) PATH '$[6]')) AS l;

CREATE OR REPLACE VIEW @jobs_view AS
SELECT j.shard, CONVERT(j.queue USING utf8mb4) AS queue, CONVERT(j.job_key USING utf8mb4) AS job_key,
    CONVERT(j.id USING utf8mb4) AS id, j.number,
    CASE
        WHEN EXISTS (SELECT 1 FROM @leases_view l WHERE l.shard = j.shard AND l.number = j.number
            AND l.due_at = j.due_at AND l.stamp >= j.stamp) THEN 'running'
        WHEN j.due_at <= UNIX_TIMESTAMP(NOW(3)) * 1000 THEN 'ready'
        ELSE 'scheduled'
    END AS state,
    TIMESTAMPADD(MICROSECOND, j.due_at * 1000, '1970-01-01') AS due_at,
    TIMESTAMPADD(MICROSECOND, j.submitted_at * 1000, '1970-01-01') AS submitted_at,
    j.attempts, CONVERT(j.schedule USING utf8mb4) AS schedule, j.target, j.content_type,
    LENGTH(j.payload) AS payload_bytes, NULL AS finished_at, NULL AS keep_until, NULL AS reason
FROM @jobs j
CROSS JOIN @meta m
JOIN @shards s ON s.shard = j.shard
WHERE j.slot = CASE WHEN j.due_at >= s.near_from AND j.due_at < s.near_until
        THEN j.due_at DIV m.slot_width ELSE 0 END
    AND NOT EXISTS (SELECT 1 FROM @gone g WHERE g.slot = j.slot AND g.shard = j.shard
        AND g.due_at = j.due_at AND g.number = j.number AND g.stamp > j.stamp)
UNION ALL
SELECT shard, CONVERT(queue USING utf8mb4), CONVERT(job_key USING utf8mb4),
    CONVERT(id USING utf8mb4), number, CONVERT(outcome USING utf8mb4),
    TIMESTAMPADD(MICROSECOND, due_at * 1000, '1970-01-01'),
    TIMESTAMPADD(MICROSECOND, submitted_at * 1000, '1970-01-01'),
    attempts, CONVERT(schedule USING utf8mb4), target, content_type, LENGTH(payload),
    TIMESTAMPADD(MICROSECOND, finished_at * 1000, '1970-01-01'),
    TIMESTAMPADD(MICROSECOND, keep_until * 1000, '1970-01-01'), reason
FROM @history
WHERE keep_until > UNIX_TIMESTAMP(NOW(3)) * 1000;

CREATE OR REPLACE VIEW @attempts_view AS
SELECT shard, number, attempt, ended, CONVERT(holder USING utf8mb4) AS holder,
    TIMESTAMPADD(MICROSECOND, started_at * 1000, '1970-01-01') AS started_at,
    TIMESTAMPADD(MICROSECOND, ended_at * 1000, '1970-01-01') AS ended_at
FROM @attempts
UNION ALL
SELECT shard, number, last_number, last_end, CONVERT(last_holder USING utf8mb4),
    TIMESTAMPADD(MICROSECOND, last_started_at * 1000, '1970-01-01'),
    TIMESTAMPADD(MICROSECOND, last_ended_at * 1000, '1970-01-01')
FROM @history WHERE last_attempt IS NOT NULL;

CREATE OR REPLACE VIEW @schedules_view AS
SELECT s.shard, CONVERT(s.id USING utf8mb4) AS id,
    TIMESTAMPADD(MICROSECOND, MAX(o.last_at) * 1000, '1970-01-01') AS last_tick,
    COUNT(o.last_at) AS occurrences
FROM @schedules s
LEFT JOIN @occurrences o ON o.shard = s.shard AND o.schedule = s.id
GROUP BY s.shard, s.id;

CREATE OR REPLACE VIEW @nodes_view AS
SELECT owner AS node, COUNT(*) AS shards, MIN(acquired_at) AS since
FROM @shards WHERE owner IS NOT NULL GROUP BY owner;
