"""A multi-protocol message gateway: several wire dialects over one command model."""

__version__ = "0.1.0"
