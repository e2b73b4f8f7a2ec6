"""The language of the house: commands, replies, records, faults.  Knows no socket, no clock, no dialect."""
