"""The embedded servers for demos, development and tests; never imported by a production worker."""
