DROP FUNCTION @hence_ack;
DROP FUNCTION @hence_add;
DROP TABLE @tenures;
DROP TABLE @acknowledged;
DROP TABLE @inbox_refused;
DROP TABLE @inbox;
