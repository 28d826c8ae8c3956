DROP VIEW IF EXISTS @nodes_view, @schedules_view, @attempts_view, @jobs_view, @leases_view;
