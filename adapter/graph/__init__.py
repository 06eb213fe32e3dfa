"""The graph document: models, validation, canonical form, expressions, conditions, templates.

Pure: nothing here reads a clock, draws a random number or talks to a server.
"""
