"""The checks, one module each; ``registry`` finds them by iterating this package."""
