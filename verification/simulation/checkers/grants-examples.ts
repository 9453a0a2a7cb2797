/** Examples of what violates a property of the checker of grants, and of what nearly does. */
import type { Lease } from "leasehold";
import type { LeaseRecord } from "leasehold/internal";
import type { Process } from "../machine.js";
import type { Step } from "../observed.js";
import type { Unsettled } from "../simulation.js";
import type { World } from "../world.js";
import { GrantChecker, type TrustRules } from "./grants.js";

export type Found = readonly Unsettled[];
/** @returns what is not yet as it must be; violations are noted by the world */
export type Course = (world: World) => Found | Promise<Found> | undefined | Promise<undefined>;

export interface Example {
  readonly property: string;
  readonly when: string;
  readonly wrong: Course;
  readonly right: Course;
}

export const KEY = { namespace: "default", resource: "r" };

export function recordOf(leaseId: string, token: number, expiresAtMs: number): LeaseRecord {
  return { leaseId, token, expiresAtMs, ended: null } as LeaseRecord;
}

/** Decisions of a store on one resource, as the checker sees them. */
export class Store {
  readonly checker: GrantChecker;

  constructor(world: World, rules: Partial<TrustRules> = {}) {
    this.checker = new GrantChecker(world, { weak: false, clocksBounded: true, ...rules });
  }

  acquired = (storeMs: number, leaseId: string, token: number, untilMs: number) =>
    this.#step("acquire", "acquired", storeMs, leaseId, recordOf(leaseId, token, untilMs));
  renewed = (storeMs: number, leaseId: string, token: number, untilMs: number) =>
    this.#step("renew", "renewed", storeMs, leaseId, recordOf(leaseId, token, untilMs));
  released = (storeMs: number, leaseId: string) =>
    this.#step("release", "released", storeMs, leaseId, recordOf(leaseId, 1, storeMs));
  revoked = (storeMs: number, untilMs: number) =>
    this.#step("revoke", "revoked", storeMs, null, recordOf("A", 1, untilMs));

  /** A holder that trusts this lease for `remainingMs` when it is asked. */
  holds(
    leaseId: string,
    { remainingMs = 0, isHeld = true, alive = true, resource = "r", token = 1 },
  ): void {
    const lease = { leaseId, resource, token, isHeld, remainingMs: () => 1 };
    this.checker.watch({ name: "ann", alive } as Process, lease as unknown as Lease);
    lease.remainingMs = () => remainingMs;
  }

  #step(
    operation: Step["operation"],
    status: string,
    storeMs: number,
    leaseId: string | null,
    after: LeaseRecord,
  ): this {
    const outcome = { status };
    this.checker.step({ ...KEY, operation, leaseId, before: null, after, outcome, storeMs });
    return this;
  }
}

/** The checker of grants beside a store that does this. */
const onStore =
  (act: (store: Store) => unknown, rules?: Partial<TrustRules>): Course =>
  (world) =>
    void act(new Store(world, rules));

/** A holder's first look at its lease, or a later one. */
const leaseOf = (remainingMs: number, isAlive = true) =>
  ({ resource: "r", remainingMs: () => remainingMs, checkAlive: () => isAlive }) as Lease;
const ann = { name: "ann", alive: true } as Process;

export const GRANTS: readonly Example[] = [
  {
    property: "a grant whose trust has passed on arrival is not acquired",
    when: "nothing is left of it",
    wrong: onStore(({ checker }) => checker.watch(ann, leaseOf(0))),
    right: onStore(({ checker }) => checker.watch(ann, leaseOf(0.1))),
  },
  {
    property: "checkAlive is never stale",
    when: "it is true and nothing is left",
    wrong: onStore(({ checker }) => checker.mayGoOn(ann, leaseOf(0))),
    right: onStore(({ checker }) => [
      checker.mayGoOn(ann, leaseOf(0.1)),
      checker.mayGoOn(ann, leaseOf(0, false)),
    ]),
  },
  {
    property: "unknown outcome is safe",
    when: "an expired grant is acquired again",
    wrong: onStore((store) => store.acquired(0, "A", 1, 100).acquired(100, "A", 1, 100)),
    right: onStore((store) => store.acquired(0, "A", 1, 100).acquired(99, "A", 1, 100)),
  },
  {
    property: "unknown outcome is safe",
    when: "a released grant is acquired again",
    wrong: onStore((store) =>
      store.acquired(0, "A", 1, 100).released(50, "A").acquired(49, "A", 1, 100),
    ),
    right: onStore((store) => store.acquired(0, "A", 1, 100).acquired(49, "A", 1, 100)),
  },
  {
    property: "unknown outcome is safe",
    when: "the repetition has another token",
    wrong: onStore((store) => store.acquired(0, "A", 1, 100).acquired(50, "A", 2, 100)),
    right: onStore((store) => store.acquired(0, "A", 2, 100).acquired(50, "A", 2, 100)),
  },
  {
    property: "no renewal after expiry",
    when: "at the expiry",
    wrong: onStore((store) => store.acquired(0, "A", 1, 100).renewed(100, "A", 1, 200)),
    right: onStore((store) => store.acquired(0, "A", 1, 100).renewed(99, "A", 1, 199)),
  },
  {
    property: "no renewal after expiry",
    when: "after a release",
    wrong: onStore((store) =>
      store.acquired(0, "A", 1, 100).released(50, "A").renewed(49, "A", 1, 199),
    ),
    right: onStore((store) =>
      store.acquired(0, "A", 1, 100).released(50, "B").renewed(60, "A", 1, 160),
    ),
  },
  {
    property: "no renewal after expiry",
    when: "after a revoke that waits for the expiry",
    wrong: onStore((store) =>
      store.acquired(0, "A", 1, 100).revoked(50, 100).renewed(60, "A", 1, 100),
    ),
    right: onStore((store) => store.acquired(0, "A", 1, 100).revoked(50, 100)),
  },
  {
    property: "no renewal after expiry",
    when: "after a takeover",
    wrong: onStore((store) =>
      store.acquired(0, "A", 2, 100).acquired(100, "B", 3, 200).renewed(110, "A", 3, 210),
    ),
    right: onStore((store) =>
      store.acquired(0, "A", 2, 100).acquired(100, "B", 3, 200).renewed(110, "B", 3, 210),
    ),
  },
  {
    property: "tokens",
    when: "a renewal changes it",
    wrong: onStore((store) => store.acquired(0, "A", 1, 100).renewed(50, "A", 2, 150)),
    right: onStore((store) => store.acquired(0, "A", 2, 100).renewed(50, "A", 2, 150)),
  },
  {
    property: "tokens",
    when: "the next grant has the same one",
    wrong: onStore((store) => store.acquired(0, "A", 1, 100).acquired(100, "B", 1, 200)),
    right: onStore((store) => store.acquired(0, "A", 1, 100).acquired(100, "B", 2, 200)),
  },
  {
    property: "tokens",
    when: "the next grant has the same one on a database that loses writes",
    wrong: onStore((store) => store.acquired(0, "A", 1, 100).acquired(1, "B", 1, 101), {
      weak: true,
    }),
    right: onStore((store) => store.acquired(0, "A", 1, 100).acquired(1, "B", 2, 101), {
      weak: true,
    }),
  },
  {
    property: "mutual exclusion",
    when: "the next grant comes before the expiry",
    wrong: onStore((store) => store.acquired(0, "A", 1, 100).acquired(99, "B", 2, 199)),
    right: onStore((store) => store.acquired(0, "A", 1, 100).acquired(100, "B", 2, 200)),
  },
  {
    property: "mutual exclusion",
    when: "it comes before the end of a renewal",
    wrong: onStore((store) =>
      store.acquired(0, "A", 1, 100).renewed(50, "A", 1, 150).acquired(149, "B", 2, 249),
    ),
    right: onStore((store) =>
      store.acquired(0, "A", 1, 100).renewed(50, "A", 1, 150).acquired(150, "B", 2, 250),
    ),
  },
  {
    property: "mutual exclusion",
    when: "another has released what it does not hold",
    wrong: onStore((store) =>
      store.acquired(0, "A", 1, 100).released(50, "B").acquired(50, "C", 2, 150),
    ),
    right: onStore((store) =>
      store.acquired(0, "A", 1, 100).released(50, "A").acquired(50, "C", 2, 150),
    ),
  },
  {
    property: "mutual exclusion",
    when: "a revoke waits for the expiry",
    wrong: onStore((store) =>
      store.acquired(0, "A", 1, 100).revoked(50, 100).acquired(99, "B", 2, 199),
    ),
    right: onStore((store) =>
      store.acquired(0, "A", 1, 100).revoked(50, 50).acquired(50, "B", 2, 150),
    ),
  },
  {
    property: "a leaseId names one grant for ever",
    when: "a program was given the first one",
    wrong: onStore((store) => {
      store.acquired(0, "A", 1, 100).holds("A", {});
      store.acquired(100, "B", 2, 200).acquired(200, "A", 3, 300).holds("A", { token: 3 });
    }),
    // The store's second grant reaches no program. The holder of the first one may not have noticed its loss.
    right: onStore((store) => {
      store.acquired(0, "A", 1, 100).holds("A", {});
      store.acquired(100, "B", 2, 200).acquired(200, "A", 3, 300).holds("A", {});
    }),
  },
  ...(
    [
      ["the next one is granted", {}],
      ["the next one is granted, and not after the process has died", { alive: false }],
      ["the next one is granted, and not of another resource", { resource: "other" }],
      ["the next one is granted, and not after the loss is known", { isHeld: false }],
    ] as const
  ).map(([when, near]) => ({
    property: "trust ends before the next grant",
    when,
    wrong: onStore((store) => {
      store.acquired(0, "A", 1, 100).holds("A", { remainingMs: 0.1 });
      store.acquired(100, "B", 2, 200);
    }),
    right: onStore((store) => {
      const remainingMs = Object.keys(near).length > 0 ? 0.1 : 0;
      store.acquired(0, "A", 1, 100).holds("A", { remainingMs, ...near });
      store.acquired(100, "B", 2, 200);
    }),
  })),
  ...(
    [
      ["with clocks that keep time", { clocksBounded: false }, 100],
      ["but for an operator who frees it at once", {}, 50],
    ] as const
  ).map(([when, rules, freeMs]) => ({
    property: "trust ends before the next grant",
    when,
    wrong: onStore((store) => {
      store.acquired(0, "A", 1, 100).holds("A", { remainingMs: 0.1 });
      store.revoked(50, 100).acquired(100, "B", 2, 200);
    }),
    right: onStore((store) => {
      store.acquired(0, "A", 1, 100).holds("A", { remainingMs: 0.1 });
      store.revoked(50, freeMs).acquired(100, "B", 2, 200);
    }, rules),
  })),
];
