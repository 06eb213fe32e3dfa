"""The documented tables and the only SQL that reads or writes them."""
