-- Takes all away, jobs included.
DROP FUNCTION @fence(int, bigint, bigint, bigint, bigint, bigint);
DROP TABLE @queues, @occurrences, @schedules, @attempts, @history, @gone, @jobs, @commits, @shards, @meta;
