-- BrPred (relational §3.5.2): do the branches of a conjunction meet in the same nodes at their branch points? The rows of
-- their relations come as three arrays: branch, points and nodes, these two as texts of integer arrays. From the deepest
-- branch points up, relations with the same columns are intersected and the last column is dropped.
CREATE OR REPLACE FUNCTION twigcast_br_pred(branches BIGINT[], points TEXT[], nodes TEXT[]) RETURNS BOOLEAN AS $$
DECLARE
    depth INTEGER;
    missing BOOLEAN;
BEGIN
    SELECT coalesce(max(cardinality(p::INTEGER[])), 0) INTO depth FROM unnest(points) AS t (p);
    WHILE depth > 0 LOOP
        WITH binding AS (
            SELECT b, p::INTEGER[] AS p, n::INTEGER[] AS n FROM unnest(branches, points, nodes) AS t (b, p, n)
        ), deepest AS (
            SELECT b, p, n FROM binding WHERE cardinality(p) = depth
        ), need AS (
            SELECT p, count(DISTINCT b) AS branches FROM deepest GROUP BY p
        ), joint AS (
            SELECT d.p, d.n FROM deepest d JOIN need ON need.p = d.p
            GROUP BY d.p, d.n, need.branches HAVING count(DISTINCT d.b) = need.branches
        ), next AS (
            SELECT b, p, n FROM binding WHERE cardinality(p) < depth
            UNION ALL
            -- one relation for each point dropped, numbered apart from all branches
            SELECT 1000000 * depth + p[depth], p[:depth - 1], n[:depth - 1] FROM joint WHERE depth > 1
        )
        SELECT (SELECT count(DISTINCT p) FROM joint) < (SELECT count(*) FROM need),
               (SELECT array_agg(b) FROM next), (SELECT array_agg(p::TEXT) FROM next), (SELECT array_agg(n::TEXT) FROM next)
        INTO missing, branches, points, nodes;
        IF missing THEN
            RETURN FALSE;
        END IF;
        depth := depth - 1;
    END LOOP;
    RETURN TRUE;
END
$$ LANGUAGE plpgsql IMMUTABLE;
