"""One connection of any dialect: socket <-> ServerSession <-> IBackend, with backpressure both ways.

Three things stop us reading: a peer that does not read its answers, a backend with enough to do, and answers that pile
up behind one that takes long.  What was read and not yet started is at most one socket read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.interfaces import (
    IAddress,
    IConsumer,
    IHalfCloseableProtocol,
    IHandshakeListener,
    IPushProducer,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends.wall import microseconds
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch
from gateway.core.replies import Answer, Outcome, Reply
from gateway.dialects import Call, Listener, ServerSession
from gateway.dialects.session import Looking, Tap, permitted, uncounted, unheard, unlooking, untold
from gateway.net.access import Guarded
from gateway.net.addresses import Network, is_loopback, is_within, shown
from gateway.net.following import Follows
from gateway.net.limits import GRACE, Rates
from gateway.net.login import Auth, Login, choose_judge
from gateway.net.meters import Meter
from gateway.net.port import Port
from gateway.net.security import names_of, says_hello
from gateway.net.sockets import finish, send, tune
from gateway.net.tapping import bursting, sees_bursts, together

MAX_HELD = 1 << 20
"""Bytes of answers that gather before they are written; and that may gather behind one that is still to come."""

_UNBEGUN = CommandFailed(Fault.UNAVAILABLE, "the connection was lost before it was begun")

LINGER_SECONDS = 1.0
"""How long what a peer still sends is read and dropped when we have hung up, unless it hangs up as well."""

CLOSE_SECONDS = 10.0
"""How long a peer that we hung up on may take to read its last answers."""


class Listening(Factory):
    """Makes the connections of one listening port.

    auth: what it asks of who comes in.  tls: it is behind TLS.  allow: where from, () = anywhere.
    port: set before the first connection can come in.
    meter: what it has done.
    """

    noisy = False
    port: Port

    def __init__(
        self,
        name: str,
        listener: Listener,
        auth: Auth = "optional",
        *,
        tls: bool = False,
        allow: Sequence[Network] = (),
    ) -> None:
        self.name = name
        self.listener = listener
        self.auth = auth
        self.tls = tls
        self.allow = tuple(allow)
        self.meter = Meter()

    def buildProtocol(self, addr: IAddress | None) -> Connection | None:
        """See IProtocolFactory.  None = there are as many connections as there may be, or none may come from there,
        and Twisted hangs up."""
        if self.allow and not is_within(addr, self.allow):
            self.meter.turned_away["allow"] += 1
            return None
        if len(self.port.connections) >= self.port.limits.connections:
            self.meter.turned_away["connections"] += 1
            return None
        return Connection(self, self.port)


@implementer(IPushProducer, IHalfCloseableProtocol, IHandshakeListener)
class Connection(Protocol):
    """One peer, from its first byte to its last answer.

    who: the session that backends see.  peer_full: the peer does not read its answers.
    """

    _log = Logger()

    def __init__(self, listening: Listening, port: Port) -> None:
        self._listening = listening
        self._port = port
        self._execute = port.backend.execute
        self._meter = listening.meter
        self._taps: dict[object, Tap] = {}
        self._looked_at = False
        self._waiting: deque[Call] = deque()
        self._waits: set[Deferred[Reply]] = set()
        self._following = Follows(self, port.backend)
        self._follows = self._following.producers
        self._running = 0
        self._calls: dict[int, tuple[Call, float]] = {}
        self._asked = 0
        self._starting = False
        self._dirty = False
        self.peer_full = False
        self._reading = True
        self._new = True
        self._hung_up: float | None = None
        self._heard_out = False
        self._lost = False

    # -- what the transport tells us

    def connectionMade(self) -> None:
        """See IProtocol."""
        assert self.transport is not None
        tune(self.transport)
        self._writer = IConsumer(self.transport)
        self._reader = IPushProducer(self.transport)
        self._writer.registerProducer(self, True)
        self._session: ServerSession = self._listening.listener.session(shown(self.transport.getHost()))
        self._session.wake, self._session.tell, self._session.permit = self._touch, self._tell, self._permit
        self._session.looking, self._session.counted = self._looking, self._refused
        self._heard = self._port.clock.seconds()
        self._enter(self.transport.getPeer())
        self._meter.accepted += 1
        self._port.connections.add(self)
        self._port.watch.active.add(self)
        self._port.taps.entered(self)

    def handshakeCompleted(self) -> None:
        """See IHandshakeListener: whose certificate the peer has shown, if that is somebody's, is who it is."""
        assert self.transport is not None
        for name in names_of(self.transport.getPeerCertificate()):  # type: ignore[attr-defined]  # ISSLTransport
            proved = self._port.named(name)
            if proved is not None:
                self.who.principal, self.who.user = proved.principal, proved.id
                self._session.known(proved.principal)
                return

    def _enter(self, peer: IAddress) -> None:
        listening, port = self._listening, self._port
        dialect = listening.listener.dialect
        self.who: Session = port.roster.enter(dialect.name, listening.name, shown(peer), microseconds())
        judge = choose_judge(lambda: port.users, listening.auth, dialect.development, is_loopback(peer))
        self._login = Login(self.who, judge, self._session, port.attempts, port.clock)
        self._verbs = {**port.roster.verbs, **self._login.verbs}
        self._barrier: Callable[[q.Command], None] | None = None
        if listening.auth == "required":
            self._barrier = self._login.barrier

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        meter, clock = self._meter, self._port.clock
        meter.bytes_in += len(data)
        if self._new:
            self._new = False
            if says_hello(data):  # some dialects would wait for the rest of what they take for a frame
                self._refused(CommandFailed(Fault.MALFORMED, "TLS, where none is spoken"))
                self._session.close("the peer speaks TLS")
        began = self._heard = clock.seconds()
        calls = self._session.receive(data, began)
        self._waiting += calls
        self._start_waiting()
        if calls:
            for call in calls:
                meter.asked[type(call.request.command)] += 1
            if not self._running:  # all of them were answered
                meter.took(type(calls[-1].request.command), clock.seconds() - began)
        self.settle()

    def readConnectionLost(self) -> None:
        """The peer will send no more; it still gets its answers."""
        self._heard_out = True
        if self._hung_up is not None:
            self._close()
            return
        self._waiting += self._session.eof()
        self._following.stop()
        self._pump()

    def writeConnectionLost(self) -> None:
        """The peer reads no more, so there is nothing left to do for it; or we have said that no more comes."""
        if self._hung_up is None:
            self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See IProtocol.  What was begun is finished and its answer dropped; what only waited is given up."""
        self._lost = True
        self._meter.closed += 1
        for call in self._waiting:
            self._session.missed(call, _UNBEGUN)
        self._waiting.clear()
        self._following.stop()
        del self._following  # it knows us, and only a collection would find that nobody else does
        self._stop_waits()
        self._login.cancel()
        self._session.lost()
        self._session.wake, self._session.tell, self._session.permit = unheard, untold, permitted
        self._session.looking, self._session.counted = unlooking, uncounted
        self._port.connections.discard(self)
        self._port.taps.left(self)
        self._port.watch.forget(self)
        self._port.roster.leave(self.who)
        self._forget()
        self._port.gone()

    def pauseProducing(self) -> None:
        """The peer does not read its answers."""
        self.peer_full = self._session.unread = True
        if not self._lost:
            self._following.pause()
            self._settle_reading()

    def resumeProducing(self) -> None:
        """The peer reads again."""
        self.peer_full = self._session.unread = False
        if not self._lost:
            self._following.resume()
            self._pump()

    def stopProducing(self) -> None:
        """The transport is done with us; connectionLost follows."""

    # -- what the port tells us

    def tick(self, now: float) -> None:
        """Look at deadlines: what the peer began must go on, unless it was us who stopped reading."""
        if self._lost:
            return
        if self._hung_up is not None:
            self._port.watch.active.add(self)
            if now - self._hung_up > CLOSE_SECONDS:
                self.abort()
            elif now - self._hung_up > LINGER_SECONDS:
                self._close()
        elif self._quiet and not self._idle(now):
            if self._port.limits.idle_seconds:
                self._port.watch.rest(self, self._heard + self._port.limits.idle_seconds)
        else:
            self._look(now)

    def _look(self, now: float) -> None:
        if not self._reading:
            self._session.excuse(now)
        self._session.tick(now)
        self._give_up(now)
        if self._idle(now):
            self._session.close(f"nothing was heard for {self._port.limits.idle_seconds:g} s")
            self._meter.turned_away["idle_seconds"] += 1
        self.settle()

    @property
    def _quiet(self) -> bool:
        busy = self._calls or self._waiting or not self._reading
        return not busy and self._hung_up is None and self._session.quiet and not self._session.closing

    def _give_up(self, now: float) -> None:
        """Commands that the backend has had for too long fail; what still comes of them is nobody's any more."""
        if not self._calls:
            return
        patience = self._port.limits.command_seconds + GRACE
        late = [
            call
            for call, began in self._calls.values()
            if now - began > patience + getattr(call.request.command, "wait", 0.0)
        ]
        for call in late:
            del self._calls[call.ticket]
            self._meter.turned_away["command_seconds"] += 1
            self._answer(call, CommandFailed(Fault.TIMEOUT, "it may have been done, or not"))

    def _idle(self, now: float) -> bool:
        limit = self._port.limits.idle_seconds
        busy = self._running or self._follows or self._waiting or self._session.closing
        return 0 < limit < now - self._heard and not busy

    def drain(self) -> None:
        """Read nothing more, answer what was asked, hang up.  Who waits for records does not get any now."""
        self._session.close("the gateway is stopping")
        self._stop_waits()
        if self._hung_up is not None and not self._lost:
            self._close()
        self.settle()

    def abort(self) -> None:
        """Hang up now."""
        if not self._lost and self.transport is not None:
            self.transport.abortConnection()  # type: ignore[attr-defined]  # ITCPTransport, and TLS has it too

    def settle(self) -> None:
        """Send what is ready; hang up if that was all; read or do not read."""
        self._dirty = False
        if self._lost:
            return
        self._port.watch.active.add(self)  # the next sweep finds out whether there is something to wait for
        self._write()
        if self._session.closing and not self._running and not self._waiting:
            self._hang_up()
        else:
            self._settle_reading()

    # -- calls

    def _pump(self) -> None:
        self._start_waiting()
        self.settle()

    def _start_waiting(self) -> None:
        """Start what waits.  A backend that answers at once calls us from inside `_start`: this loop goes on then."""
        if self._starting:
            return
        self._starting = True
        try:
            waiting, session = self._waiting, self._session
            while waiting:
                if (self._running or self._follows or self.peer_full) and self._must_wait(waiting[0]):
                    break
                self._start(waiting.popleft())
                if session.held > MAX_HELD:
                    self._write()
        finally:
            self._starting = False

    def _looking(self) -> Looking | None:
        """How a session may look at once, unless what it was asked before comes first; see ServerSession.looking."""
        shut = self._barrier is not None or self._login.running is not None or self._looked_at
        shut = shut or self._port.rates is not None or not self._port.immediate
        wait = shut or self._waiting or self.peer_full or self._full()
        return None if wait else Looking(self._execute, self.who, _dropped, self._looked)

    def _looked(self, kind: type, times: int) -> None:
        self._meter.asked[kind] += times

    def _must_wait(self, call: Call) -> bool:
        """Whether a call cannot begin yet."""
        if self._full() or (self.peer_full and not self._session.spares(call)):
            return True
        if self._login.running is not None:
            return True  # who asks this is only known then
        if self._running and type(call.request.command) is q.Follow:
            return True  # pushes begin when everything asked before has been answered
        return bool(self._follows) and not self._session.dialect.tagged  # and an answer in order comes before no push

    def _full(self) -> bool:
        """Whether no more is to be started, nor read, for now."""
        limits = self._port.limits
        running, most = self._running, limits.in_flight
        if running >= most or self._asked >= limits.buffered_bytes:
            return True
        session = self._session
        piled = session.held > MAX_HELD or len(session.early) >= most
        return piled and (running > 0 or bool(self._follows))

    def _start(self, call: Call) -> None:
        command = call.request.command
        try:
            if self._port.rates is not None:
                self._count_rate(self._port.rates)
            if call.proof is not None and not self._login.proven(call.proof):
                self._prove(call, call.proof)
                return
            if self._barrier is not None:
                self._barrier(command)
            if type(command) is q.Follow:
                self._following.begin(call, command)
                return
            verb = self._verbs.get(type(command))
            result = self._execute(command, self.who) if verb is None else verb(command, self.who)
            if isinstance(result, Answer):  # asked first: whether a reply is a Deferred takes three times as long
                self._session.answer(call, result)
                return
            assert isinstance(result, Deferred), "a backend gives nothing else"
        except CommandFailed as failure:
            self._answer(call, failure)
        except Exception:
            self._answer(call, self.reason(call, Failure()))
        else:
            self._running += 1
            self._calls[call.ticket] = call, self._port.clock.seconds()
            self._asked += _weight(command)
            if getattr(command, "wait", 0):
                self._waits.add(result)
            asked = call, result
            result.addCallbacks(self._done, self._failed, callbackArgs=asked, errbackArgs=asked)

    def _count_rate(self, rates: Rates) -> None:
        who = self.who
        if not rates.take(who.principal or who.peer.rpartition(":")[0], self._port.clock.seconds()):
            self._meter.turned_away["requests_per_second"] += 1
            raise CommandFailed(Fault.BUSY, "more requests a second than one may ask")

    def _prove(self, call: Call, proof: q.Authenticate) -> None:
        """Log in as whom a call says it is of, before it is carried out."""
        result = self._verbs[q.Authenticate](proof, self.who)
        if not isinstance(result, Deferred):
            self._proved(call)
            return
        self._running += 1
        self._calls[call.ticket] = call, self._port.clock.seconds()
        result.addBoth(self._checked, call)

    def _checked(self, result: Reply | Failure, call: Call) -> None:
        self._running -= 1
        if self._calls.pop(call.ticket, None) is None:  # it took too long, and that was said
            self._touch()
        elif self._lost:
            self._session.missed(call, _UNBEGUN)
        elif isinstance(result, Failure):
            self._answer(call, self.reason(call, result))
            self._touch()
        else:
            self._proved(call)
            self._touch()

    def _proved(self, call: Call) -> None:
        """It is its turn again, and now it is known who asks."""
        self._waiting.appendleft(Call(call.ticket, call.request))

    def _failed(self, failure: Failure, call: Call, result: Deferred[Reply]) -> None:
        self._done(self.reason(call, failure), call, result)

    def _done(self, outcome: Outcome, call: Call, result: Deferred[Reply]) -> None:
        self._running -= 1
        if self._asked:
            self._asked -= _weight(call.request.command)
        if self._waits:
            self._waits.discard(result)
        begun = self._calls.pop(call.ticket, None)
        if begun is None:  # it took too long, and that was said
            self._touch()
            return
        self._meter.took(type(call.request.command), self._port.clock.seconds() - begun[1])
        if self._lost:
            self._session.missed(call, outcome)
            return
        self._answer(call, outcome)
        self._touch()

    def _answer(self, call: Call, outcome: Outcome) -> None:
        if isinstance(outcome, CommandFailed):
            self._count(type(call.request.command), outcome)
        try:
            self._session.answer(call, outcome)
        except Exception:
            self._session.answer(call, self.reason(call, Failure()))

    def _count(self, kind: type, failure: CommandFailed) -> None:
        self._meter.faults[kind, failure.fault] += 1
        self._port.faults.add(microseconds(), self._listening.name, self.who.id, kind.__name__, failure)

    def _refused(self, failure: CommandFailed) -> None:
        self._meter.refused[failure.fault] += 1
        self._port.faults.add(microseconds(), self._listening.name, self.who.id, "", failure)

    def reason(self, call: Call, failure: Failure) -> CommandFailed:
        """What the peer is told.  A defect is ours, not the peer's: it is logged, and the peer learns no more of it."""
        if isinstance(failure.value, CommandFailed):
            return failure.value
        if isinstance(failure.value, CancelledError):
            return CommandFailed(Fault.UNAVAILABLE, "the gateway is stopping")
        self._log.failure("{kind} failed", failure=failure, kind=type(call.request.command).__name__)
        return CommandFailed(Fault.INTERNAL)

    def _permit(self, what: str | None) -> None:
        if self._barrier is not None:
            self._barrier(q.Describe())
        if what is not None and isinstance(self._port.backend, Guarded):
            self._port.backend.permit(what, self.who)

    def _touch(self) -> None:
        if self._waiting:
            self._start_waiting()
        if not self._dirty:
            self._dirty = True
            self._port.touch(self)

    def _stop_waits(self) -> None:
        for wait in list(self._waits):
            wait.cancel()

    def _tell(self, sentence: str) -> None:
        """Something for the operator's log; what a client put into it cannot break lines or steer a terminal."""
        plain = "".join(letter if letter.isprintable() else "?" for letter in sentence)
        self._log.warn(
            "{peer} on {listener}: {sentence}", peer=self.who.peer, listener=self.who.listener, sentence=plain
        )

    # -- what Follows tell us

    def begun(self, call: Call) -> None:
        """Its records are on their way."""
        self._port.watch.active.add(self)
        self._session.begun(call)
        if self._session.deaf:
            self._waiting.clear()

    def not_begun(self, call: Call, failure: Failure) -> None:
        """There will be none."""
        self._answer(call, self.reason(call, failure))
        self._touch()

    def push(self, call: Call, batch: RecordBatch) -> None:
        """Records for the peer.  Raises what encoding them does."""
        self._session.push(call, batch)
        if self._session.held > MAX_HELD:
            self._write()  # now, so that the transport can pause us before the next batch is read
        self._touch()

    def ended(self, call: Call, failure: CommandFailed) -> None:
        """There will be no more."""
        self._session.ended(call, failure)
        self._touch()

    # -- who looks

    @property
    def running(self) -> int:
        """Commands that are being carried out."""
        return self._running

    def put_on(self, key: object, tap: Tap) -> None:
        """Have all that crosses seen."""
        self._taps[key] = tap
        self._tap()

    def take_off(self, key: object) -> None:
        """No more."""
        if self._taps.pop(key, None) is not None:
            self._tap()

    def wears(self, key: object) -> bool:
        """Whether that tap is on."""
        return key in self._taps

    def _tap(self) -> None:
        self._session.tap, self._session.bursts = together(self._taps.values()), bursting(self._taps.values())
        self._looked_at = not all(map(sees_bursts, self._taps.values()))

    # -- the socket

    def _write(self) -> None:
        data = self._session.take()
        if data and not self._lost:
            self._meter.bytes_out += len(data)
            send(self.transport, data)

    def _settle_reading(self) -> None:
        full = (self.peer_full and not self._session.sparing) or bool(self._waiting) or self._full()
        if full is self._reading and not self._lost:
            self._reading = not full
            if full:
                self._reader.pauseProducing()
            else:
                self._session.excuse(self._port.clock.seconds())
                self._reader.resumeProducing()

    def _hang_up(self) -> None:
        if self._hung_up is not None:
            return
        assert self.transport is not None
        self._hung_up = self._port.clock.seconds()
        self._following.stop()
        self._log.debug("{peer}: {reason}", peer=self.who.peer, reason=self._session.reason)
        self._writer.unregisterProducer()  # else it would be asked for more before the connection may end
        if self._heard_out or self._port.draining or not finish(self.transport):
            self._close()
        elif not self._reading:
            self._reader.resumeProducing()

    def _close(self) -> None:
        assert self.transport is not None
        self.transport.loseConnection()

    def _forget(self) -> None:
        """Tell the backend that this session is over."""
        ended = maybeDeferred(self._execute, q.EndSession(), self.who)
        ended.addErrback(lambda failure: self._log.failure("EndSession failed", failure=failure))


def _dropped(result: object) -> None:
    """What is not wanted any more; who asks in the usual way is told how it ends."""
    if isinstance(result, Deferred):
        result.addErrback(lambda failure: None)


def _weight(command: q.Command) -> int:
    """Bytes of records that the command holds, or may bring, while it is carried out."""
    if isinstance(command, q.Publish):
        return len(command.batch.body)
    return command.max_bytes if isinstance(command, q.Fetch) and not command.wait else 0
