/* Bounds, and the state of each part. `spin -DTTL=4` and the like change a bound. */

#ifndef CLIENTS
#define CLIENTS 2
#endif
/* Lease ids of each client. Each acquire takes a new one. */
#ifndef LEASES
#define LEASES 2
#endif
/* In ticks: the duration of a grant, and how much shorter its holder counts it. */
#ifndef TTL
#define TTL 3
#endif
#ifndef EPSILON
#define EPSILON 1
#endif
/* With SESSIONS: how long a session lasts after the last sign of life of its client. */
#ifndef SESSION
#define SESSION 4
#endif
/* How long a free resource is reserved for each waiter, and how long a queue position lasts without a poll. */
#ifndef RESERVED
#define RESERVED 1
#endif
#ifndef WAIT
#define WAIT 2
#endif
/* Faults of the network, copies of requests under way at a time, crashes of clients, revocations. */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef COPIES
#define COPIES 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef REVOKES
#define REVOKES 1
#endif

/* The name is one of properties.js, which has the words of docs/guarantees.md. */
#define property(name, condition) \
  if \
  :: condition \
  :: else -> printf("broken: "); printf(#name); printf("\n"); assert(false) \
  fi

mtype = { ACQUIRE, RENEW, RELEASE };                                    /* operations */
mtype = { IDLE, SENT, ANSWERED, FAILED };                               /* stages of a call */
mtype = { NONE, GRANTED, HELD, ENDED, RENEWED, LOST, RELEASED };        /* outcomes */
mtype = { RESTS, ASKS, HOLDS, RELEASES, DEAD };                         /* phases of a client */

/* The store: the last grant of the resource. A lease id of 0 is none. */
typedef Record {
  byte lease;
  byte token;
  byte left;        /* ticks until it excludes no other client */
  byte grant;       /* counts grants; only properties read it */
  bool isReleased;
  bool isRevoked;
};
Record record;
#define excludes (record.left > 0 && !record.isReleased)
#define isLive   (excludes && !record.isRevoked)

/* The wait queue, its head first. */
#define PLACES (CLIENTS + 1)
typedef Waiter {
  byte lease;
  byte left;        /* ticks until the position expires */
};
Waiter queue[PLACES];
byte freeFor;       /* ticks since the last grant ended, as far as reservations go */

/* A client's call to the store. The answer arrives in the same place. */
typedef Call {
  mtype stage = IDLE;
  mtype operation = ACQUIRE;
  byte age;         /* ticks since it was sent, by the client's clock */
  mtype outcome = NONE;
  byte token;
  byte remaining;   /* ticks until the expiry, when the store decided */
  byte grant;
};
Call call[CLIENTS];

/* Requests that no caller waits for any more. They come late, or twice. A lease id of 0 is none. */
typedef Copy { mtype operation = ACQUIRE; byte lease };
Copy copies[COPIES];

/* If as many are under way as the bound allows, this one is lost. */
inline leaveCopy(request, id) {
  isLeft = false;
  for (j : 0 .. COPIES - 1) {
    if
    :: copies[j].lease == 0 && !isLeft ->
      copies[j].operation = request;
      copies[j].lease = id;
      isLeft = true
    :: else
    fi
  }
}

/* A client. */
typedef Contender {
  mtype phase = RESTS;
  byte lease;       /* its lease id; client c has those after c * LEASES */
  byte token;
  byte trust;       /* ticks for which it trusts its lease, by its own clock */
  byte grant;       /* as record.grant */
  bool isChecked;   /* checkAlive() has returned true, and the write follows */
  bool isEvicted;   /* an operator revoked the grant at once; only properties read it */
};
Contender client[CLIENTS];
#define ownerOf(id)   (((id) - 1) / LEASES)
#define isTrusting(c) (client[c].phase == HOLDS && client[c].trust > 0)

/* The protected resource: the largest token that its guard has seen, and the latest grant that has written. */
byte largest, latest;

/*
 * With LOADS: what a request has loaded of the record. A version is unique for each write, so all that a load needs to know
 * is whether another one followed.
 */
#ifdef LOADS
typedef Load {
  bool isMade;
  bool isStale;     /* the version is another one */
  bool isWritten;   /* the record was written; only properties read it */
  bool isRefused;   /* the request is to join the wait queue */
  byte ahead;       /* waiters ahead, when it was loaded */
  byte age;         /* ticks since then */
};
Load loads[CLIENTS];

inline forgetLoad(c) {
  loads[c].isMade = false;
  loads[c].isStale = false;
  loads[c].isWritten = false;
  loads[c].isRefused = false;
  loads[c].ahead = 0;
  loads[c].age = 0
}
inline noteWrite(ofRecord) {
  for (i : 0 .. CLIENTS - 1) {
    loads[i].isStale = loads[i].isStale || loads[i].isMade;
    loads[i].isWritten = loads[i].isWritten || (loads[i].isMade && ofRecord)
  };
  i = 0
}
#else
inline forgetLoad(c) { skip }
inline noteWrite(ofRecord) { skip }
#endif

byte faults = FAULTS, crashes = CRASHES, revokes = REVOKES;

/* Used within one step only. */
hidden byte i, j, isLeft;
