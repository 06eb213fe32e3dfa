"""The SDK: one object through which a host publishes, starts, emits and reads."""
