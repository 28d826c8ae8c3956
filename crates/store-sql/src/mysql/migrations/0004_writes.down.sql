DROP PROCEDURE IF EXISTS @drop_writes;
CREATE PROCEDURE @drop_writes()
BEGIN
    IF EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
        AND TABLE_NAME = '@shards' AND COLUMN_NAME = 'writes') THEN
        ALTER TABLE @shards DROP COLUMN writes;
    END IF;
END;
CALL @drop_writes();
DROP PROCEDURE @drop_writes;
