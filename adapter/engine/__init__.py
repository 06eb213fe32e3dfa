"""The seam to Temporal: the little that the rest asks of it, and the real thing behind it."""
