"""Judging clients, servers and ourselves by the cases that lie beside each dialect."""
