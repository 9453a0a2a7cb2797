/* What a client does, as in lease/acquire.ts, lease/held-lease.ts and lease/trust.ts. It may pause between any two steps. */

#define me   client[c]
#define mine call[c]
#define isIdle (mine.stage == IDLE)

inline send(request) {
  mine.stage = SENT;
  mine.operation = request;
  mine.age = 0;
  printf("client %d: sends %e of lease %d\n", c, request, me.lease)
}

inline endCall() {
  forgetLoad(c);
  mine.stage = IDLE;
  mine.operation = ACQUIRE;
  mine.age = 0;
  mine.outcome = NONE;
  mine.token = 0;
  mine.remaining = 0;
  mine.grant = 0
}

/* How long the client may trust its lease after an answer: counted from when it sent the request, less epsilon. */
#ifdef TRUST_FROM_ANSWER
#define shorterBy EPSILON
#else
#define shorterBy (mine.age + EPSILON)
#endif
#define trustGiven (mine.remaining > shorterBy -> mine.remaining - shorterBy : 0)

/* Trust ends for good. */
inline stopTrusting() {
  me.trust = 0;
  me.token = 0;
  me.grant = 0;
  me.isChecked = false;
  me.isEvicted = false
}

/* A release that the client does not wait for. */
inline giveUp() {
  printf("client %d: gives up lease %d\n", c, me.lease);
  leaveCopy(RELEASE, me.lease);
  me.phase = RESTS;
  me.isEvicted = false
}

inline onAcquire() {
  if
  :: mine.outcome == GRANTED && trustGiven > 0 ->
    me.phase = HOLDS;
    me.trust = trustGiven;
    me.token = mine.token;
    me.grant = mine.grant;
    printf("client %d: holds the lease with token %d, trusts it for %d ticks\n", c, me.token, me.trust)
  :: mine.outcome == GRANTED && trustGiven == 0 ->
    printf("client %d: the answer took longer than the lease\n", c);
    giveUp()
  :: mine.outcome == HELD
  :: mine.outcome == ENDED -> me.phase = RESTS; me.isEvicted = false
  fi;
  endCall();
  checkTrust()
}

inline onRenewal() {
  if
  :: mine.outcome == RENEWED && mine.token == me.token ->
    me.trust = (trustGiven > me.trust -> trustGiven : me.trust);
    printf("client %d: trusts its lease for %d ticks\n", c, me.trust)
  :: else -> printf("client %d: has lost its lease\n", c); stopTrusting(); me.phase = RESTS
  fi;
  endCall();
  checkTrust()
}

/* The write arrives at the protected resource. Its guard refuses a smaller token than it has seen. */
inline write() {
#ifdef NO_FENCE
  if
  :: true ->
#else
  if
  :: me.token < largest -> printf("client %d: its write with token %d is refused\n", c, me.token)
  :: else ->
#endif
    printf("client %d: writes with token %d\n", c, me.token);
    property(LATE_WRITE_REFUSED, me.grant >= latest);
    largest = me.token;
    latest = me.grant
  fi;
  me.isChecked = false
}

proctype Client(byte c) {
  do
  :: d_step { me.phase == RESTS && me.lease < (c + 1) * LEASES ->
      me.lease = (me.lease == 0 -> c * LEASES + 1 : me.lease + 1);
      me.phase = ASKS;
      send(ACQUIRE)
    }
  :: d_step { mine.stage == FAILED -> endCall() }

  /* Asks under the same lease id, while it is refused or unanswered. */
  :: d_step { me.phase == ASKS && isIdle -> send(ACQUIRE) }
  :: d_step { me.phase == ASKS && isIdle -> giveUp() }
  :: d_step { me.phase == ASKS && mine.stage == ANSWERED -> onAcquire() }

  /* Holds: renews, and checks before each write. */
  :: d_step { isTrusting(c) && isIdle -> send(RENEW) }
  :: d_step { me.phase == HOLDS && mine.stage == ANSWERED && !me.isChecked -> onRenewal() }
  :: d_step { isTrusting(c) && !me.isChecked ->
      me.isChecked = true;
      printf("client %d: checks that it holds its lease\n", c)
    }
  :: d_step { me.phase == HOLDS && me.isChecked -> write() }

  /* Releases: its trust ends first. */
  :: d_step { me.phase == HOLDS && !me.isChecked && isIdle ->
#ifndef TRUST_OUTLIVES_THE_RELEASE
      stopTrusting();
      me.phase = RELEASES;
#endif
      send(RELEASE)
    }
  :: d_step { me.phase == RELEASES && isIdle -> send(RELEASE) }
  :: d_step { me.phase == RELEASES && (isIdle || mine.stage == ANSWERED) -> endCall(); me.phase = RESTS }

#ifdef SESSIONS
  /* A sign of life of its session, which may arrive at any time. It lengthens no trust. */
  :: d_step { (me.phase == ASKS || me.phase == HOLDS) && record.lease == me.lease && excludes && record.left < SESSION ->
      startTtl();
      printf("client %d: its session lives on\n", c)
    }
#endif

  /* A client that is killed sends nothing any more. */
  :: d_step { crashes > 0 && (me.phase == ASKS || me.phase == HOLDS) ->
      crashes--;
      stopTrusting();
      me.phase = DEAD;
      printf("client %d: is killed\n", c)
    }
  od
}
#undef me
#undef mine
#undef isIdle
#undef shorterBy
#undef trustGiven
