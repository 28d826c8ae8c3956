-- In a Galera cluster every commit changes the row of its shard, so that one on another node that has
-- not seen it is taken back. By a procedure, because MySQL cannot add a column only if it is missing,
-- and a run that did not come to its end is made again.
DROP PROCEDURE IF EXISTS @add_writes;
CREATE PROCEDURE @add_writes()
BEGIN
    IF NOT EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
        AND TABLE_NAME = '@shards' AND COLUMN_NAME = 'writes') THEN
        ALTER TABLE @shards ADD COLUMN writes BIGINT NOT NULL DEFAULT 0;
    END IF;
END;
CALL @add_writes();
DROP PROCEDURE @add_writes;
