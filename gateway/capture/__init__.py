"""The traffic journal: one row per frame, in files that can be shown, replayed, and read by anything.

**A file** is a sequence of zstd frames.  What is in them, one after the other, is msgpack: first one map, the header,
then arrays, the rows.  A zstd frame ends where a row ends, so that all of a file is readable but for a frame that was
being written when the process died.  At least every second what there is becomes a frame.  With the packages zstandard
and msgpack, and nothing of ours:

    with open(path, "rb") as file:
        plain = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        header, *rows = msgpack.Unpacker(plain, max_buffer_size=0)

**The header** is a map:

    format      "gateway-capture"
    version     1; counted up when a field of a row changes its meaning.  New fields come behind the others, and a
                reader passes over those that it does not know
    gateway     version of the gateway that wrote it
    node        what it calls itself
    started     when the process began, us since the epoch: tells apart connections of two processes with one number
    opened      when the file was begun
    listeners   name -> {"dialect": its name, "settings": {...}}: what decoding needs to know beside the frames

**A row** is an array of these, in this order (rows.Row):

    time        us since the epoch
    connection  number of the connection in this process, from 1
    dialect     the dialect's name
    listener    the listener's name
    direction   "in" = from the client; "out" = to it; "open", "close" = the connection was made, is gone;
                "gap" = rows are missing here, of any connections: the queue was full
    frame       bin, the bytes.  In: one whole frame.  Out: all that answers, or what is said without being asked
    ticket      what an answer has in common with its request, within the connection; -1 = nothing was asked
    kind        the command's name in core.commands, "" = the frame is no command, or nothing is asked
    namespace   what the command is about, "" = nothing; one that is named by its id N is "#N"
    topic       the same
    outcome     of an answer: the name of a reply in core.replies, or of a fault in core.faults (in capitals)
    latency     of an answer: us since its request was heard, else 0
    principal   who the client is known to be, "" = nobody
    note        open: the client's address; gap: how many rows; else what was done to the frame

Rows are in the order in which things happened.  A request is a row "in", its answer the row "out" of the same
connection and ticket, which may come much later, and never if the connection was lost before.  Connections that were
there when the capture began have tickets that do not begin at 0.

**Secrets** never come into a file: the frame of a login is made anew with asterisks for the secret, and a frame that
may hold a secret and cannot be read as a login is left empty; `note` says so.  What records hold is not looked at.

**Files** are called `capture-TIME-NUMBER.rows.zst`, in the order in which they were begun.  A capture that keeps
`faults` alone writes `fault-...` instead: the last frames of one connection whose peer sent what is no request.
"""

from __future__ import annotations
