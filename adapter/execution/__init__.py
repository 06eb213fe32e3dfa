"""Running instances: turns, handlers, actions. Knows the record, knows no Temporal."""
