DROP VIEW @hence_nodes, @hence_schedules, @hence_attempts, @hence_jobs, @hence_leases;
