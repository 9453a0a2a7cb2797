"""A lock for programs in any language: the lock service over HTTP, with the standard library alone.

    python3 examples/locks-with-python.py [URL]

URL is the server's: by default $LEASEHOLD_URL, or http://127.0.0.1:4040, which `npm start` and
`npx leasehold serve` open.

You will see a billing run that takes longer than its lock lasts, because the lock is renewed; a
second owner being told who holds it; and a third whose renewals stop: it knows by its own clocks
that it must stop, before the server lets the next one in, whose token is larger.
"""

import base64
import json
import os
import secrets
import sys
import threading
import time
import urllib.error
import urllib.request

SERVER = (sys.argv[1:] or [os.environ.get("LEASEHOLD_URL", "http://127.0.0.1:4040")])[0]
TRIES = 3


class LockHeld(Exception):
    """Another worker holds the lock."""


class LockLost(Exception):
    """We must stop: another worker may already hold the lock."""


class Lock:
    """`with Lock(resource, owner, ttl_seconds) as lock:`, and `lock.check()` before each step."""

    def __init__(self, resource, owner, ttl_seconds, renews=True):
        self.resource, self.owner, self.ttl_seconds = resource, owner, ttl_seconds
        # Names this grant, is ours to choose, and a secret. A request that is repeated because its
        # answer was lost gets the same grant again, and not a second one.
        name = base64.urlsafe_b64encode(resource.encode()).decode().rstrip("=")
        self._path = f"/v1/locks/{name}.{secrets.token_hex(24)}"
        self._trusted_until = (0.0, 0.0)
        self._refused = False
        self._done = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True) if renews else None

    def __enter__(self):
        lease_id = self._path.rsplit("/", 1)[1]
        body = {"resource": self.resource, "ownerId": self.owner, "ttlSeconds": self.ttl_seconds}
        try:
            asked, answer = call("POST", "/v1/locks/acquire", {**body, "leaseId": lease_id})
        except OSError:
            # It may be ours all the same: nobody should wait for that.
            self._release()
            raise
        if not answer["acquired"]:
            raise LockHeld(answer["ownerId"])
        self.token = answer["fencingToken"]
        self._trust(asked, answer)
        if self._renewing:
            self._renewing.start()
        return self

    def __exit__(self, *_):
        # A renewal that is under way will be refused: nobody has to wait for it.
        self._done.set()
        self._release()

    def check(self):
        """Raises LockLost unless it is surely ours still. Asks nobody: our own clocks know."""
        if self._refused or any(now >= until for now, until in zip(clocks(), self._trusted_until)):
            raise LockLost(self.resource)

    def _trust(self, asked, answer):
        # Counted from before the call: the server decided after that, and so it cannot let the next
        # one in earlier. Less 1 %, should our clock be slower than its, and 10 ms for the next step.
        seconds = answer["remainingMs"] / 1000 * 0.99 - 0.01
        self._trusted_until = tuple(clock + seconds for clock in asked)

    def _renew(self):
        """At a third of the ttl. That no answer comes is no loss: what counts is the trusted time."""
        while not self._done.wait(self.ttl_seconds / 3):
            try:
                self._trust(*call("POST", f"{self._path}/renew", {"ttlSeconds": self.ttl_seconds}))
            except Refused:
                self._refused = True
                return
            except OSError as error:
                print(f"{self.owner}: no renewal: {error}", file=sys.stderr)

    def _release(self):
        try:
            call("DELETE", self._path)
        except OSError as error:
            print(f"{self.owner}: free at its expiry: {error}", file=sys.stderr)


class Refused(OSError):
    """The server has decided, and would decide the same again."""


def call(method, path, body=None):
    """When it was asked, and the answer; OSError when there is none, after some tries."""
    for tries_left in reversed(range(TRIES)):
        asked = clocks()
        request = urllib.request.Request(
            SERVER.rstrip("/") + path,
            method=method,
            headers={"content-type": "application/json"},
            data=None if body is None else json.dumps(body).encode(),
        )
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return asked, json.load(response)
        except urllib.error.HTTPError as problem:
            if problem.code < 500:
                raise Refused(f"{problem.code} {json.load(problem)['detail']}") from None
            if not tries_left:
                raise
        except OSError:
            if not tries_left:
                raise
        time.sleep(0.1)


def clocks():
    """Two: one that nobody sets, and one that goes on while the machine is suspended."""
    return time.monotonic(), time.time()


def close_billing(lock):
    for step in range(1, 7):
        lock.check()
        time.sleep(0.5)
        # Whatever it writes carries the token: what it writes to refuses a smaller one.
        print(f"{lock.owner}: step {step} of 6, token {lock.token}")


def main():
    billing = f"tenant_123:billing-close:{os.getpid()}"
    with Lock(billing, "worker-1", ttl_seconds=2) as lock:
        try:
            with Lock(billing, "worker-2", ttl_seconds=2):
                print("worker-2: has it too, which must not happen")
        except LockHeld as held:
            print(f"worker-2: the lock is held by {held}")
        close_billing(lock)

    with Lock(billing, "worker-3", ttl_seconds=2, renews=False) as late:
        try:
            close_billing(late)
        except LockLost:
            print("worker-3: stops, because another worker may hold the lock by now")
        while True:
            try:
                with Lock(billing, "worker-4", ttl_seconds=2) as lock:
                    print(f"worker-4: has it, and the token has grown: {lock.token > late.token}")
                    break
            except LockHeld:
                time.sleep(0.1)


try:
    main()
except urllib.error.URLError as error:
    sys.exit(f"{SERVER} does not answer ({error.reason}): npx leasehold serve")
