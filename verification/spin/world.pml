/* The world around clients and the store: the network, the operator, and time. */

#define theirs call[c]

inline loseCall() {
  forgetLoad(c);
  faults--;
  theirs.stage = FAILED;
  theirs.age = 0;
  theirs.outcome = NONE;
  theirs.token = 0;
  theirs.remaining = 0;
  theirs.grant = 0
}

/* The way of a client to the store. A caller cannot tell a late request from a lost request or a lost answer. */
proctype Network(byte c) {
  do
  :: d_step { faults > 0 && theirs.stage == SENT ->
      printf("network: loses %e of client %d\n", theirs.operation, c);
      loseCall()
    }
  :: d_step { faults > 0 && theirs.stage == ANSWERED ->
      printf("network: loses the answer to %e of client %d\n", theirs.operation, c);
      loseCall()
    }
  :: d_step { faults > 0 && theirs.stage == SENT ->
      printf("network: delays %e of client %d until its caller waits no longer\n", theirs.operation, c);
      leaveCopy(theirs.operation, client[c].lease);
      loseCall()
    }
  :: d_step { faults > 0 && theirs.stage == SENT ->
      printf("network: copies %e of client %d\n", theirs.operation, c);
      leaveCopy(theirs.operation, client[c].lease);
      faults--
    }
  od
}
#undef theirs

/* Each copy arrives at any time. */
#define copy copies[k]
proctype Delayed(byte k) {
  do
  :: d_step { copy.lease > 0 ->
      decide(copy.operation, copy.lease, record.token + 1);
      printf("store: %e of lease %d, whose caller waits no longer: %e\n", copy.operation, copy.lease, outcome);
      copy.operation = ACQUIRE;
      copy.lease = 0
    }
  od
}
#undef copy

/* An operator revokes a grant: it is free at its expiry, or now. */
#define holder client[ownerOf(record.lease)]
proctype Operator() {
  do
  :: d_step { revokes > 0 && isLive ->
      revokes--;
      record.isRevoked = true;
      noteWrite(true);
#ifdef FREE_WHEN_REVOKED
      record.left = 0;
      freeFor = 0;
#endif
      printf("operator: revokes lease %d at its expiry\n", record.lease);
      checkTrust()
    }
  :: d_step { revokes > 0 && excludes ->
      revokes--;
      record.isRevoked = true;
      record.left = 0;
      freeFor = 0;
      noteWrite(true);
      if
      :: holder.lease == record.lease -> holder.isEvicted = true
      :: else
      fi;
      printf("operator: revokes lease %d now\n", record.lease)
    }
  od
}

#undef holder

/* A tick of the store's clock, and of the clients' clocks. */
inline tick(isSlow) {
  if
  :: record.left > 0 ->
#ifndef NO_EXPIRY
    record.left--
#endif
  :: record.left == 0 && record.lease > 0 && freeFor < PLACES * RESERVED -> freeFor++
  :: else
  fi;
  for (j : 0 .. PLACES - 1) {
    if
    :: queue[PLACES - 1 - j].left > 1 -> queue[PLACES - 1 - j].left--
#ifndef DEAD_WAITER_BLOCKS
    :: queue[PLACES - 1 - j].left == 1 -> removeWaiters(PLACES - 1 - j, 1)
#endif
    :: else
    fi
  }
  for (j : isSlow .. CLIENTS - 1) {
    if
    :: client[j].trust > 0 -> client[j].trust--
    :: else
    fi;
    if
    :: (call[j].stage == SENT || call[j].stage == ANSWERED) && call[j].age < TTL -> call[j].age++
    :: else
    fi
#ifdef LOADS
    ;
    if
    :: loads[j].isMade && loads[j].age < TTL -> loads[j].age++
    :: else
    fi
#endif
  }
  checkTrust()
}

proctype Time() {
#ifdef SLOW_CLOCK
  byte exact = TTL;
#endif
  do
  :: d_step { true ->
      tick(0);
#ifdef SLOW_CLOCK
      exact = (exact < TTL -> exact + 1 : TTL);
#endif
      printf("- tick\n")
    }
#ifdef SLOW_CLOCK
  /* The clock of client 0 stands still for a tick, once in a TTL. */
  :: d_step { exact == TTL ->
      tick(1);
      exact = 0;
      printf("- tick, which the clock of client 0 misses\n")
    }
#endif
  od
}

init {
  byte n;
  atomic {
    for (n : 0 .. CLIENTS - 1) {
      run Client(n);
      run Store(n);
      run Network(n)
    }
    for (n : 0 .. COPIES - 1) {
      run Delayed(n)
    }
    run Operator();
    run Time();
    n = 0
  }
}
