-- From version 1 to 2: unrolled rows know the number of their first equality.
CREATE TABLE unroll_first (
    first_id INTEGER NOT NULL,
    linear_path_id INTEGER NOT NULL,
    op TEXT NOT NULL,
    value TEXT NOT NULL,
    number DOUBLE PRECISION NOT NULL
);
INSERT INTO unroll_first
SELECT row_number() OVER (), path1, op1, value1, number1
FROM (SELECT DISTINCT path1, op1, value1, number1 FROM predicate_unroll WHERE op1 IN ('=', '==', 'in')) AS firsts;
ALTER TABLE predicate_unroll ADD COLUMN first_id INTEGER DEFAULT 0;
UPDATE predicate_unroll SET first_id = f.first_id FROM unroll_first f
WHERE f.linear_path_id = path1 AND f.op = op1 AND f.value = value1 AND f.number = number1;
