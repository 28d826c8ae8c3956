-- Letters: requests that others write, each in a transaction of their own. Times are in UTC.
CREATE TABLE IF NOT EXISTS @inbox (
    id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    written_at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    body       LONGTEXT CHARACTER SET utf8mb4 NOT NULL
) ENGINE = InnoDB;

-- Letters that nothing came of, for people.
CREATE TABLE IF NOT EXISTS @inbox_refused (
    id         BIGINT NOT NULL PRIMARY KEY,
    written_at DATETIME(3) NOT NULL,
    refused_at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    reason     TEXT CHARACTER SET utf8mb4 NOT NULL,
    body       LONGTEXT CHARACTER SET utf8mb4 NOT NULL
) ENGINE = InnoDB;

-- Jobs whose work was committed together with their acknowledgement: each can be there once.
CREATE TABLE IF NOT EXISTS @acknowledged (
    shard  INT NOT NULL,
    number BIGINT NOT NULL,
    at     DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    PRIMARY KEY (shard, number)
) ENGINE = InnoDB;
