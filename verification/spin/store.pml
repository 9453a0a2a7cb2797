/* The store decides each request in one atomic step, as lease/rules.ts and lease/queue.ts specify. */

/* The answer. */
hidden mtype outcome;
hidden byte token, remaining, grant;
/* The request's place in the wait queue: how many waiters are ahead, and whether it is a waiter itself. */
hidden byte ahead, isQueued;
/* What the record was before the step. */
hidden byte wasOwn, wasLive, lastToken;

/* While a client trusts its lease, its grant must exclude all others. */
inline checkTrust() {
  for (i : 0 .. CLIENTS - 1) {
    property(TRUST_ENDS_FIRST,
      !isTrusting(i) || client[i].isEvicted || (excludes && record.lease == client[i].lease))
  };
  i = 0   /* SPIN wants a statement behind a loop that ends a d_step */
}

inline findPlace(id) {
  ahead = 0;
  isQueued = false;
  for (i : 0 .. PLACES - 1) {
    if
    :: queue[i].lease == id -> isQueued = true
    :: queue[i].lease != id && queue[i].lease != 0 && !isQueued -> ahead++
    :: else
    fi
  }
}

/* Removes n waiters, the first of them at `place`. */
inline removeWaiters(place, n) {
  for (i : place .. PLACES - 1) {
    if
    :: i + n < PLACES -> queue[i].lease = queue[i + n].lease; queue[i].left = queue[i + n].left
    :: else -> queue[i].lease = 0; queue[i].left = 0
    fi
  }
}

inline answer(result) {
  outcome = result;
  token = record.token;
  grant = record.grant;
#ifdef SESSIONS
  remaining = TTL
#else
  remaining = record.left
#endif
}

/* An engine with sessions ends a grant with the session of its client, and each request is a sign of life. */
inline startTtl() {
#ifdef SESSIONS
  record.left = SESSION
#else
  record.left = TTL
#endif
}

/* A waiter that polls keeps its place, and a new one comes last. */
inline refuse(id) {
  outcome = HELD;
  if
  :: isQueued || ahead < PLACES ->
    queue[ahead].lease = id;
    queue[ahead].left = WAIT;
#ifdef JOIN_INSIDE_THE_VERSION
    noteWrite(false)
#endif
  :: else
  fi
}

inline makeGrant(id, next) {
  property(TOKENS_GROW, next > record.token);
  property(IN_ORDER, record.lease == 0 || freeFor >= ahead * RESERVED);
  noteWrite(true);
  record.lease = id;
  record.token = next;
  record.grant++;
  record.isReleased = false;
  record.isRevoked = false;
  freeFor = 0;
  startTtl();
  if
  :: client[ownerOf(id)].lease == id -> client[ownerOf(id)].isEvicted = false
  :: else           /* the client has given this lease id up */
  fi;
  if
  :: isQueued -> removeWaiters(0, ahead + 1)
  :: else
  fi;
  answer(GRANTED)
}

/* A free resource is reserved for the waiters ahead, one after the other. */
#if defined(NEWCOMER_OVERTAKES)
#define isReserved false
#elif defined(DEAD_WAITER_BLOCKS)
#define isReserved (ahead > 0)
#else
#define isReserved (freeFor < ahead * RESERVED)
#endif

inline acquire(id, next) {
  findPlace(id);
  if
  :: record.lease == id && isLive ->
#ifdef NEW_TOKEN_FOR_A_REPETITION
    record.token++;
#endif
#ifdef SESSIONS
    startTtl();
#endif
    answer(GRANTED)
  :: record.lease == id && !isLive -> outcome = ENDED
  :: record.lease != id && excludes -> refuse(id)
  :: record.lease != id && !excludes && record.lease != 0 && isReserved -> refuse(id)
  :: else -> makeGrant(id, next)
  fi
}

inline renew(id) {
  if
  :: record.lease == id && isLive -> startTtl(); noteWrite(true); answer(RENEWED)
#ifdef RENEWAL_REVIVES
  :: record.lease == id && !isLive && !record.isReleased ->
    record.isRevoked = false;
    startTtl();
    answer(RENEWED)
#endif
  :: else -> outcome = LOST
  fi
}

inline release(id) {
  findPlace(id);
  outcome = RELEASED;
  if
  :: isQueued -> removeWaiters(ahead, 1)
  :: else
  fi;
  if
  :: record.lease == id && excludes -> record.isReleased = true; record.left = 0; freeFor = 0; noteWrite(true)
  :: else
  fi
}

/* Decides a request under a lease id. `next` is the token of a new grant. */
inline decide(request, id, next) {
  wasOwn = (record.lease == id);
  wasLive = isLive;
  lastToken = record.token;
  token = 0; remaining = 0; grant = 0;
  if
  :: request == ACQUIRE -> acquire(id, next)
  :: request == RENEW -> renew(id)
  :: request == RELEASE -> release(id)
  fi;
  property(SAME_GRANT,
    !(request == ACQUIRE && wasOwn && wasLive) || (outcome == GRANTED && token == lastToken));
  property(ENDED_FOR_GOOD, !(wasOwn && !wasLive) || (outcome != GRANTED && outcome != RENEWED));
  checkTrust()
}

#ifdef LOADS
#include "store-loads.pml"
#else
/* A process for each client, so that the store may let any client wait, but none for ever. */
#define mine call[c]
proctype Store(byte c) {
  byte next;
  do
#ifdef TOKEN_BEFORE_LOCK
  :: d_step { mine.stage == SENT && mine.operation == ACQUIRE && next == 0 ->
      next = record.token + 1;
      printf("store: draws token %d for client %d, before it decides\n", next, c)
    }
  :: d_step { mine.stage == SENT && (mine.operation != ACQUIRE || next > 0) ->
#else
  :: d_step { mine.stage == SENT ->
      next = record.token + 1;
#endif
      decide(mine.operation, client[c].lease, next);
      next = 0;
      mine.stage = ANSWERED;
      mine.outcome = outcome;
      mine.token = token;
      mine.remaining = remaining;
      mine.grant = grant;
      printf("store: %e from client %d: %e, token %d, %d ticks left\n",
        mine.operation, c, outcome, token, remaining)
    }
  od
}
#undef mine
#endif
