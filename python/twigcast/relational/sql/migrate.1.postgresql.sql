DROP INDEX predicate_unroll_lookup;
CREATE INDEX unroll_first_lookup ON unroll_first (linear_path_id, op, md5(value), number);
CREATE INDEX predicate_unroll_first ON predicate_unroll (first_id);
CREATE INDEX predicate_unroll_other ON predicate_unroll (path1) WHERE first_id = 0;
