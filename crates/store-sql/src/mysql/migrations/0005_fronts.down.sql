DROP PROCEDURE IF EXISTS @drop_fronts;
CREATE PROCEDURE @drop_fronts()
BEGIN
    IF EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
        AND TABLE_NAME = '@commits' AND COLUMN_NAME = 'fronts') THEN
        ALTER TABLE @commits DROP COLUMN fronts;
    END IF;
END;
CALL @drop_fronts();
DROP PROCEDURE @drop_fronts;
