DROP TABLE IF EXISTS @acknowledged, @inbox_refused, @inbox;
