/*
 * The protocol of one lease, for the model checker SPIN: `npm run spin` explores every interleaving of it.
 * A resource is one record in a store, so resources cannot affect each other, and one is enough.
 *
 *   Client ── call ──▶ Store        one atomic step decides a request, as core/rules.ts and core/queue.ts specify
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
 *   bounds.pml   constants, and the state of each part
 *   store.pml    what the store decides
 *   client.pml   what a client does
 *   world.pml    the network, the operator, time
 */
#include "bounds.pml"
#include "store.pml"
#include "client.pml"
#include "world.pml"


/*
 * With LIVENESS: a resource that clients want does not stay free for ever, and no dead client keeps it. It holds if
 * no process but a killed client is paused for ever.
 */
#ifdef LIVENESS
#define isTrusted (isTrusting(0) || isTrusting(1))
#define isWanted  (client[0].phase == ASKS || client[1].phase == ASKS)
ltl GRANTED_AT_LAST { []<> (isTrusted || !isWanted) }
#endif
