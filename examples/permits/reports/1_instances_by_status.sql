-- Instances by status
SELECT definition.key AS workflow,
       instance.status,
       count(*) AS instances,
       round(avg(instance.steps_count), 1) AS steps_each
FROM workflow_instances AS instance
JOIN workflow_definitions AS definition ON definition.id = instance.definition_id
GROUP BY definition.key, instance.status
ORDER BY definition.key, instances DESC;
