/*
 * The protocol of one lease, for the model checker SPIN: `npm run verify -- spin` explores every interleaving of it.
 * A resource is one record in the store. Resources do not affect each other, so one is enough.
 *
 *   Client ── call ──▶ Store        one atomic step decides a request, as lease/rules.ts and lease/queue.ts specify
 *     │ │                ▲  ▲
 *     │ └── copies ──────┘  └── Operator: revokes
 *     │     Network: loses requests and answers, delivers requests late and twice
 *     ▼
 *   Protected resource: takes writes, each with a token
 *
 *   Time: one tick for all clocks. Every process may pause between any two steps, for any number of ticks.
 *
 * Time counts down to deadlines instead of up from zero. So the model has finitely many states, and no horizon.
 *
 *   bounds.pml   bounds, and the state of each part
 *   store.pml    what the store decides (store-loads.pml: on what it has loaded)
 *   client.pml   what a client does
 *   world.pml    the network, the operator, time
 */
#include "bounds.pml"
#include "store.pml"
#include "client.pml"
#include "world.pml"


/*
 * With LIVENESS: again and again, a client trusts its lease or no client asks. So the resource does not stay free, and no
 * dead client keeps it. The verifier assumes that no process is paused for ever, except for killed clients.
 */
#ifdef LIVENESS
#define isAsking(c) (client[c].phase == ASKS)
#if CLIENTS == 2
#define isTrusted (isTrusting(0) || isTrusting(1))
#define isWanted  (isAsking(0) || isAsking(1))
#else
#define isTrusted (isTrusting(0) || isTrusting(1) || isTrusting(2))
#define isWanted  (isAsking(0) || isAsking(1) || isAsking(2))
#endif
ltl GRANTED_AT_LAST { []<> (isTrusted || !isWanted) }
#endif
