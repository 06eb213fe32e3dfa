-- Where the cases spent their days: between which nodes, by the log's own times
WITH done AS (
  SELECT instance.version_id, step.node_id AS node,
         lead(step.node_id) OVER in_case AS next_node,
         (step.output ->> 'timestamp')::timestamptz AS at,
         lead((step.output ->> 'timestamp')::timestamptz) OVER in_case AS next_at
  FROM workflow_step_runs AS step
  JOIN workflow_instances AS instance ON instance.id = step.instance_id
  WHERE step.node_type = 'action' AND step.status = 'succeeded'
  WINDOW in_case AS (PARTITION BY step.instance_id ORDER BY step.finished_at)
),
spent AS (
  SELECT version_id, node, next_node,
         count(*) AS times,
         (extract(epoch FROM sum(next_at - at)) / 86400)::numeric AS days_in_all,
         percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM next_at - at)) / 86400
           AS median_days
  FROM done
  WHERE next_node IS NOT NULL
  GROUP BY version_id, node, next_node
),
name AS (
  SELECT version.id AS version_id, document ->> 'id' AS node, document ->> 'name' AS name
  FROM workflow_versions AS version
  CROSS JOIN LATERAL jsonb_array_elements(version.graph -> 'nodes') AS document
)
SELECT one.name AS after,
       other.name AS until,
       spent.times,
       round(spent.median_days::numeric, 1) AS median_days,
       round(spent.days_in_all, 0) AS days_in_all
FROM spent
JOIN name AS one ON one.version_id = spent.version_id AND one.node = spent.node
JOIN name AS other ON other.version_id = spent.version_id AND other.node = spent.next_node
ORDER BY spent.days_in_all DESC
LIMIT 12;
