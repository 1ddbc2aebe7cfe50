CREATE UNIQUE INDEX query_subscription_number ON query_subscription (number);
CREATE INDEX query_subscription_id ON query_subscription USING hash (id);
CREATE INDEX query_alternative_sub ON query_alternative (sub_id);
CREATE INDEX query_alternative_number ON query_alternative (number);
-- A digest stands in for a constant: an index entry is bounded, a constant is not.
CREATE INDEX query_predicate_lookup ON query_predicate (pre_id, linear_path_id, op, md5(value), number);
CREATE INDEX query_predicate_chain ON query_predicate (chain_id);
CREATE INDEX unroll_first_lookup ON unroll_first (linear_path_id, op, md5(value), number);
CREATE INDEX predicate_unroll_first ON predicate_unroll (first_id);
CREATE INDEX predicate_unroll_other ON predicate_unroll (path1) WHERE first_id = 0;
CREATE INDEX predicate_unroll_sub ON predicate_unroll (sub_id);
CREATE INDEX query_branch_point_sub ON query_branch_point (sub_id);
CREATE INDEX query_branch_point_info ON query_branch_point (br_info_id);
CREATE INDEX tagpath_br_info_lookup ON tagpath_br_info (tagpath_id, br_info_id);
CREATE INDEX reference_value_lookup ON reference_value (md5(value), reference);
