DROP TABLE IF EXISTS @queues, @occurrences, @schedules, @attempts, @history, @gone, @jobs, @commits,
    @shards, @meta;
