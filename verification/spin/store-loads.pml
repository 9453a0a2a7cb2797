/*
 * A store that loads and saves, as store-kit/ does: the rules decide on what was loaded, and a save stands only if the record is as
 * it was then. Others act in between, and the client may be paused.
 *
 *   SENT ──▶ load ──▶ refused, lost, ended: answered at once
 *             ▲ │
 *             │ └───▶ a change ──▶ save ──▶ answered
 *             └──────────────────── the version is another one
 */
#define mine   call[c]
#define loaded loads[c]
#define id     client[c].lease

inline give() {
  forgetLoad(c);
  mine.stage = ANSWERED;
  mine.outcome = outcome;
  mine.token = token;
  mine.remaining = remaining;
  mine.grant = grant;
  printf("store: %e from client %d: %e, token %d, %d ticks left\n", mine.operation, c, outcome, token, remaining)
}

/* Decides. What changes nothing is answered; what does is saved later. */
inline decideLoaded() {
  token = 0; remaining = 0; grant = 0;
  findPlace(id);
  if
  :: mine.operation == ACQUIRE && record.lease == id && isLive -> answer(GRANTED); give()
  :: mine.operation == ACQUIRE && record.lease == id && !isLive -> outcome = ENDED; give()
  :: mine.operation == RENEW && !(record.lease == id && isLive) -> outcome = LOST; give()
  :: else ->
    loaded.isMade = true;
    loaded.isRefused = (mine.operation == ACQUIRE && (excludes || (record.lease != 0 && isReserved)));
    loaded.ahead = ahead;
    printf("store: has loaded the record for %e of client %d\n", mine.operation, c)
  fi
}

#ifdef SAVE_WITHOUT_VERSION
#define isOther false
#else
#define isOther loaded.isStale
#endif
/* A version does not change by time. */
#ifdef SAVE_WITHOUT_EXPIRY
#define isLate false
#else
#define isLate (mine.operation == RENEW && !isLive)
#endif

inline lookAgain() {
  property(ONLY_WRITES_CONFLICT, loaded.isWritten || isLate || loaded.age == TTL);
  printf("store: looks again for %e of client %d\n", mine.operation, c);
  forgetLoad(c)
}

/* Times count from the load. */
inline saveGrant() {
  ahead = loaded.ahead;
  makeGrant(id, record.token + 1);
  record.left = TTL - loaded.age;
  remaining = record.left
}

inline save() {
  token = 0; remaining = 0; grant = 0;
  wasOwn = (record.lease == id);
  wasLive = isLive;
  findPlace(id);
  if
  /* It joins in any case, and is refused if the grant still stands. */
  :: loaded.isRefused ->
    refuse(id);
    if
#ifndef JOIN_AND_WAIT
    :: isOther -> lookAgain()
#endif
    :: else ->
      property(JOINS_WHILE_HELD, !loaded.isWritten);
      give()
    fi
  :: !loaded.isRefused && (isOther || isLate || (mine.operation == ACQUIRE && loaded.age == TTL)) -> lookAgain()
  :: else ->
    if
    :: mine.operation == ACQUIRE -> saveGrant()
    :: mine.operation == RENEW ->
      property(ENDED_FOR_GOOD, wasOwn && wasLive);
      record.left = (record.left > TTL - loaded.age -> record.left : TTL - loaded.age);
      noteWrite(true);
      answer(RENEWED)
    :: mine.operation == RELEASE -> release(id)
    fi;
    give()
  fi;
  checkTrust()
}

/* A process for each client: any of them may be paused between load and save. */
proctype Store(byte c) {
  do
  :: d_step { mine.stage == SENT && !loaded.isMade -> decideLoaded() }
  :: d_step { mine.stage == SENT && loaded.isMade -> save() }
  od
}
#undef mine
#undef loaded
#undef id
