"""The traffic journal: every frame, in files that can be shown, replayed, and read by anything.

**A file** is a sequence of zstd frames.  What is in them, one after the other, is msgpack: first one map, the header,
then a map for each sheet: some hundreds or thousands of rows, column by column.  A zstd frame holds the header or one
sheet, so that all of a file is readable but for a sheet that was being written when the process died.  At least every
second what there is becomes a sheet.  With the packages zstandard and msgpack, and nothing of ours:

    with open(path, "rb") as file:
        plain = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        header, *sheets = msgpack.Unpacker(plain, max_buffer_size=0)

and with ours, `rows.Capture(path)`, which has the header and goes through the rows.

**The header** is a map:

    format      "gateway-capture"
    version     1; counted up when something changes its meaning.  New fields of a map come under new names, those of an
                array behind the others, and a reader passes over those that it does not know
    gateway     version of the gateway that wrote it
    node        what it calls itself
    started     when the process began, us since the epoch: tells apart connections of two processes with one number
    opened      when the file was begun
    listeners   name -> {"dialect": its name, "settings": {...}}: what decoding needs to know beside the frames

**A row** is what a reader makes of a sheet (row.Row):

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
    latency     of an answer: us from when its request came to when it was on its way, else 0
    principal   who the client is known to be, "" = nobody
    note        open: the client's address; gap: how many rows; else what was done to the frame

Rows are in the order in which things happened, but that of what came in one read of a socket the requests are first.
A request is a row "in", its answer the row "out" of the same connection and ticket, which may come much later, and
never if the connection was lost before.  Connections that were there when the capture began have tickets that do not
begin at 0.  All that came in one read has one time, as has all that was answered until the next write.

**A sheet** is a map (sheets.Sheet has the types); lists that would be empty may be missing:

    began       us since the epoch, that times in the sheet count from
    who         for each connection in it [connection, dialect, listener, principal]
    words       names, that kinds and outcomes are numbers of; the first is ""
    topics      [namespace, topic], that topics are numbers of; the first is ["", ""]
    turns       [times, asked, told]: how many requests there are in each turn, and how many answers behind them.  It
                begins at its time, when its requests were heard, and ends at that of the next, when its answers were
                on their way; there is one time more than there are turns
    asked       [connections, tickets, kinds, topics, frames]: all requests, in order
    earlier     [connections, tickets, kinds, topics, times]: requests of earlier sheets that are answered in this one
    told        [frames, outcomes, of, others]: all answers, in order.  of: the number of the request that each answers,
                where those in `earlier` come before those in `asked`; empty = 0, 1, 2, ...; -1 = it is none of
                them, and then [its place, connection, ticket] is in `others`
    glances     small reads that came in one read and were answered at once, at the beginning of a turn, before what
                else is in it: [turn, connection, ticket of the first, kind, outcome, frames that came, frames that were
                answered, [[from which of them on, topic], ...]]
    rows        [turn, row]: all else, as arrays of the fields above; each stands at the beginning of its turn
    named       [turn, connection, principal]: who its client is known to be from that turn on
    notes       [whether it is of `told`, not of `asked`, place there, note]

**Secrets** never come into a file: the frame of a login is made anew with asterisks for the secret, and a frame that
may hold a secret and cannot be read as a login is left empty; `note` says so.  What records hold is not looked at.

**Files** are called `capture-TIME-NUMBER.rows.zst`, in the order in which they were begun.  A capture that keeps
`faults` alone writes `fault-...` instead: the last frames of one connection whose peer sent what is no request.
"""

from __future__ import annotations
