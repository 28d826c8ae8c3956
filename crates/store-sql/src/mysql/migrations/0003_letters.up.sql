-- Letters: requests that others write, each in a transaction of their own.
CREATE TABLE IF NOT EXISTS @inbox (
    id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    written_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    body       LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL
) ENGINE = InnoDB;

-- Letters that nothing came of, for people.
CREATE TABLE IF NOT EXISTS @inbox_refused (
    id         BIGINT NOT NULL PRIMARY KEY,
    written_at TIMESTAMP(3) NOT NULL,
    refused_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    reason     TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    body       LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL
) ENGINE = InnoDB;

-- Jobs whose work was committed together with their acknowledgement: each can be there once.
CREATE TABLE IF NOT EXISTS @acknowledged (
    shard           INT NOT NULL,
    number          BIGINT NOT NULL,
    acknowledged_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    PRIMARY KEY (shard, number)
) ENGINE = InnoDB;

-- Schedules a job when the caller's transaction is committed: `job` is said as over HTTP.
DROP PROCEDURE IF EXISTS @add;
CREATE PROCEDURE @add(IN job LONGTEXT CHARACTER SET utf8mb4) MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    IF NOT JSON_VALID(job) OR JSON_TYPE(job) <> 'OBJECT' THEN
        SIGNAL SQLSTATE '45000'
            SET MESSAGE_TEXT = 'a job is an object, such as {"url": "https://...", "in": "5m"}';
    END IF;
    INSERT INTO @inbox (body) VALUES (CONCAT('{"add":', job, '}'));
END;

-- The work of a job is done when the caller's transaction is committed. `job` is the job as it was
-- handed out. Fails when another transaction has done so before: this one must then be rolled back.
DROP PROCEDURE IF EXISTS @ack;
CREATE PROCEDURE @ack(
    IN job LONGTEXT CHARACTER SET utf8mb4, IN result LONGTEXT CHARACTER SET utf8mb4
) MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE job_number BIGINT DEFAULT JSON_EXTRACT(job, '$.number');
    DECLARE job_token VARCHAR(64) DEFAULT JSON_UNQUOTE(JSON_EXTRACT(job, '$.token'));
    DECLARE job_queue LONGTEXT CHARACTER SET utf8mb4 DEFAULT JSON_EXTRACT(job, '$.queue');
    DECLARE job_id LONGTEXT CHARACTER SET utf8mb4 DEFAULT JSON_EXTRACT(job, '$.id');
    DECLARE EXIT HANDLER FOR 1062
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the job was acknowledged before: roll back';
    IF job_number IS NULL OR job_token IS NULL OR job_queue IS NULL OR job_id IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'the job must be given as it was handed out: queue, id, number and token';
    END IF;
    INSERT INTO @acknowledged (shard, number)
    VALUES (CAST(SUBSTRING_INDEX(job_token, '.', 1) AS SIGNED), job_number);
    INSERT INTO @inbox (body) VALUES (CONCAT('{"done":{"queue":', job_queue,
        ',"key":', IFNULL(JSON_EXTRACT(job, '$.key'), 'null'), ',"id":', job_id,
        ',"number":', job_number,
        ',"answer":', IFNULL(CONCAT('{"result":', result, '}'), 'null'), '}}'));
END;
