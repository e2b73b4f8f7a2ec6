"""Sockets.  Carries bytes between peers and dialect sessions, and calls between sessions and a backend."""
