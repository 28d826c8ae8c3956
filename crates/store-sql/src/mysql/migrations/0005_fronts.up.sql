-- Where the waiting jobs of queues begin after a commit: [[queue, due_at], ...]. Whoever asks for the
-- first ones begins there, and does not walk over all that is over.
DROP PROCEDURE IF EXISTS @add_fronts;
CREATE PROCEDURE @add_fronts()
BEGIN
    IF NOT EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
        AND TABLE_NAME = '@commits' AND COLUMN_NAME = 'fronts') THEN
        ALTER TABLE @commits ADD COLUMN fronts JSON;
    END IF;
END;
CALL @add_fronts();
DROP PROCEDURE @add_fronts;
