-- Where the instances are: passed each node, stand there, wait after it
WITH node AS (
  SELECT version.id AS version_id, definition.key AS workflow, position,
         document ->> 'id' AS id,
         coalesce(document ->> 'name', document ->> 'id') AS name,
         document ->> 'type' AS type
  FROM workflow_definitions AS definition
  JOIN workflow_versions AS version ON version.id = definition.current_version_id
  CROSS JOIN LATERAL jsonb_array_elements(version.graph -> 'nodes')
    WITH ORDINALITY AS listed (document, position)
),
passed AS (
  SELECT instance.version_id, step.node_id,
         count(DISTINCT step.instance_id) AS instances, count(*) AS visits
  FROM workflow_step_runs AS step
  JOIN workflow_instances AS instance ON instance.id = step.instance_id
  WHERE step.status = 'succeeded'
  GROUP BY instance.version_id, step.node_id
),
standing AS (
  SELECT version_id, current_node_id AS node_id, count(*) AS instances
  FROM workflow_instances
  WHERE status IN ('pending', 'running', 'waiting', 'paused')
  GROUP BY version_id, current_node_id
),
latest AS (
  SELECT DISTINCT ON (step.instance_id) instance.version_id, step.node_id
  FROM workflow_instances AS instance
  JOIN workflow_step_runs AS step ON step.instance_id = instance.id
  WHERE instance.status = 'waiting' AND step.node_type = 'action' AND step.status = 'succeeded'
  ORDER BY step.instance_id, step.finished_at DESC
),
waiting_after AS (
  SELECT version_id, node_id, count(*) AS instances FROM latest GROUP BY version_id, node_id
)
SELECT node.name AS node,
       node.type,
       coalesce(passed.instances, 0) AS passed,
       coalesce(passed.visits, 0) AS visits,
       coalesce(standing.instances, 0) AS here_now,
       coalesce(waiting_after.instances, 0) AS waiting_after
FROM node
LEFT JOIN passed ON passed.version_id = node.version_id AND passed.node_id = node.id
LEFT JOIN standing ON standing.version_id = node.version_id AND standing.node_id = node.id
LEFT JOIN waiting_after
  ON waiting_after.version_id = node.version_id AND waiting_after.node_id = node.id
ORDER BY node.workflow, node.position;
