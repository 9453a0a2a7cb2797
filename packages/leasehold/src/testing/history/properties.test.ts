/**
 * Both checkers, fed by hand: each answer that a store can give, and each fact in it, once wrongly and once
 * rightly. The two histories differ in as little as can be, so a checker that ignores the difference fails here.
 */
import { describe, expect, it } from "vitest";
import {
  acquire,
  acquired,
  ended,
  held,
  lost,
  notHeld,
  release,
  released,
  renew,
  renewed,
  revoke,
  revoked,
} from "../../../../../tests/support/worlds/history-entries.js";
import { grantIdOf } from "../../env/index.js";
import type { HistoryEntry, Operation } from "./entry.js";
import { checkGrants, type GrantViolation } from "./grants.js";
import { checkLinearizability } from "./linearizability.js";

interface Example {
  readonly wrong: readonly HistoryEntry[];
  readonly right: readonly HistoryEntry[];
}
type OutcomeOf<Name extends Operation> = NonNullable<
  Extract<HistoryEntry, { operation: Name; result: "ok" }>["outcome"]
>;
/** The status of an outcome, and the reason if it has one: the compiler asks for an example of each. */
type Shown<Outcome> = Outcome extends { status: "lost"; reason: infer Reason extends string }
  ? `lost: ${Reason}`
  : Outcome extends { status: infer Status extends string }
    ? Exclude<Status, "lost">
    : never;

const A = acquire([0, 1], "A", acquired(1));
const B = acquire([104, 105], "B", acquired(2));

/** The grant A lasts for 100 ms; at 90 it is live and at 104 it is not, whatever clocks do. */
const ANSWERS: { readonly [Name in Operation]: Readonly<Record<Shown<OutcomeOf<Name>>, Example>> } =
  {
    acquire: {
      acquired: { wrong: [A, acquire([90, 91], "B", acquired(2))], right: [A, B] },
      held: {
        wrong: [A, acquire([104, 105], "B", held("A"))],
        right: [A, acquire([90, 91], "B", held("A"))],
      },
      ended: {
        wrong: [A, acquire([90, 91], "A", ended)],
        right: [A, acquire([104, 105], "A", ended)],
      },
    },
    renew: {
      renewed: {
        wrong: [A, renew([104, 105], "A", renewed(1))],
        right: [A, renew([90, 91], "A", renewed(1))],
      },
      "lost: expired": {
        wrong: [A, renew([90, 91], "A", lost("expired"))],
        right: [A, renew([104, 105], "A", lost("expired"))],
      },
      "lost: taken": {
        wrong: [A, renew([110, 111], "A", lost("taken"))],
        right: [A, B, renew([110, 111], "A", lost("taken"))],
      },
      "lost: revoked": {
        wrong: [A, renew([20, 21], "A", lost("revoked"))],
        right: [A, revoke([10, 11], {}, revoked(1)), renew([20, 21], "A", lost("revoked"))],
      },
      "lost: gone": {
        wrong: [A, renew([20, 21], "A", lost("gone"))],
        right: [A, release([10, 11], "A", released), renew([20, 21], "A", lost("gone"))],
      },
    },
    release: {
      released: {
        wrong: [A, release([104, 105], "A", released)],
        right: [A, release([90, 91], "A", released)],
      },
      notHeld: {
        wrong: [A, release([90, 91], "A", notHeld)],
        right: [A, release([104, 105], "A", notHeld)],
      },
    },
    revoke: {
      revoked: {
        wrong: [A, revoke([104, 105], {}, revoked(1))],
        right: [A, revoke([90, 91], {}, revoked(1))],
      },
      notHeld: {
        wrong: [A, revoke([90, 91], {}, { status: "notHeld" })],
        right: [A, revoke([104, 105], {}, { status: "notHeld" })],
      },
      otherToken: {
        wrong: [A, revoke([90, 91], { expectedToken: 1 }, { status: "otherToken" })],
        right: [A, revoke([90, 91], { expectedToken: 2 }, { status: "otherToken" })],
      },
    },
  };

const heldBy = (more: object) => ({ ...held("A"), ...more });
/** What an answer says besides its status. */
const FACTS: Readonly<Record<string, Example>> = {
  "a new grant's token is larger": {
    wrong: [A, acquire([104, 105], "B", acquired(1))],
    right: [A, acquire([104, 105], "B", acquired(2))],
  },
  "a repeated acquire's token is the same": {
    wrong: [A, acquire([10, 11], "A", acquired(2, 90))],
    right: [A, acquire([10, 11], "A", acquired(1, 90))],
  },
  "a renewal's token is the same": {
    wrong: [A, renew([10, 11], "A", renewed(2))],
    right: [A, renew([10, 11], "A", renewed(1))],
  },
  "a revoke's token is that of the grant": {
    wrong: [A, revoke([10, 11], {}, revoked(2))],
    right: [A, revoke([10, 11], {}, revoked(1))],
  },
  "a token that no answer has shown is larger than the last": {
    wrong: [
      A,
      acquire([104, 105], "B", "unknown"),
      acquire([110, 111], "C", held("B")),
      revoke([120, 121], {}, revoked(1)),
    ],
    right: [
      A,
      acquire([104, 105], "B", "unknown"),
      acquire([110, 111], "C", held("B")),
      revoke([120, 121], {}, revoked(2)),
    ],
  },
  "a new grant lasts for its ttl": {
    wrong: [acquire([0, 1], "A", acquired(1, 105))],
    right: [acquire([0, 1], "A", acquired(1, 101))],
  },
  "a new grant lasts no less": {
    wrong: [acquire([0, 1], "A", acquired(1, 95))],
    right: [acquire([0, 1], "A", acquired(1, 98))],
  },
  "a renewed grant lasts for its ttl from then on": {
    wrong: [A, renew([50, 51], "A", renewed(1)), acquire([130, 131], "B", acquired(2))],
    right: [A, renew([50, 51], "A", renewed(1)), acquire([154, 155], "B", acquired(2))],
  },
  "a renewal never shortens": {
    wrong: [A, renew([10, 11], "A", renewed(1, 80))],
    right: [A, renew([10, 11], "A", renewed(1, 100))],
  },
  "a refusal says what is left of the grant": {
    wrong: [A, acquire([50, 51], "B", held("A", 60))],
    right: [A, acquire([50, 51], "B", held("A", 50))],
  },
  "a refusal says no less": {
    wrong: [A, acquire([50, 51], "B", held("A", 40))],
    right: [A, acquire([50, 51], "B", held("A", 50))],
  },
  "a refusal names the holder": {
    wrong: [A, acquire([50, 51], "B", heldBy({ holder: "holder B" }))],
    right: [A, acquire([50, 51], "B", heldBy({ holder: "holder A" }))],
  },
  "a refusal names the grant, if it names one": {
    wrong: [A, acquire([50, 51], "B", heldBy({ grantId: grantIdOf("B") }))],
    right: [A, acquire([50, 51], "B", heldBy({ grantId: grantIdOf("A") }))],
  },
  "a revoke at once frees": {
    wrong: [A, revoke([10, 11], {}, revoked(1, 90))],
    right: [A, revoke([10, 11], {}, revoked(1, 0))],
  },
  "a revoke at expiry says what is left": {
    wrong: [A, revoke([10, 11], { free: "atExpiry" }, revoked(1, 80))],
    right: [A, revoke([10, 11], { free: "atExpiry" }, revoked(1, 90))],
  },
  "a revoke at expiry keeps others out": {
    wrong: [
      A,
      revoke([10, 11], { free: "atExpiry" }, revoked(1, 90)),
      acquire([20, 21], "B", acquired(2)),
    ],
    right: [A, revoke([10, 11], { free: "atExpiry" }, revoked(1, 90)), B],
  },
  "a request without an answer has no effect before it is sent": {
    wrong: [A, acquire([50, 51], "B", acquired(2)), release([60, 61], "A", "unknown")],
    right: [A, release([40, 41], "A", "unknown"), acquire([50, 51], "B", acquired(2))],
  },
  "a request without an answer has one effect": {
    wrong: [
      acquire([0, 1], "A", "unknown"),
      acquire([10, 11], "B", held("A")),
      release([20, 21], "A", released),
      acquire([30, 31], "B", acquired(2)),
      release([40, 41], "B", released),
      acquire([50, 51], "C", held("A")),
    ],
    right: [
      acquire([0, 1], "A", "unknown"),
      acquire([10, 11], "B", held("A")),
      release([20, 21], "A", released),
      acquire([30, 31], "B", acquired(2)),
      acquire([50, 51], "C", held("B")),
    ],
  },
  "a request that failed has no effect": {
    wrong: [acquire([0, 1], "A", "fail"), acquire([10, 11], "B", held("A"))],
    right: [acquire([0, 1], "A", "unknown"), acquire([10, 11], "B", held("A"))],
  },
  "an answer comes after what had returned before it was sent": {
    wrong: [A, release([10, 11], "A", released), acquire([12, 13], "B", held("A"))],
    right: [A, release([10, 12], "A", released), acquire([11, 13], "B", held("A"))],
  },
};

const EXAMPLES = [
  ...Object.entries(ANSWERS).flatMap(([operation, answers]) =>
    Object.entries<Example>(answers).map(
      ([answer, example]) => [`${operation} answered ${answer}`, example] as const,
    ),
  ),
  ...Object.entries(FACTS),
];

describe("the checker of linearizability", () => {
  const judge = (history: readonly HistoryEntry[]) => checkLinearizability(history).resources[0];

  it.each(EXAMPLES)("reports: %s", (_, { wrong }) => {
    expect(judge(wrong)?.verdict).toBe("not");
  });
  it.each(EXAMPLES)("passes nearly the same: %s", (_, { right }) => {
    expect(judge(right)?.explanation).toEqual([]);
    expect(judge(right)?.verdict).toBe("linearizable");
  });
  it.each(EXAMPLES)("is not misled by the order of the entries: %s", (_, { wrong, right }) => {
    expect([judge(wrong.toReversed())?.verdict, judge(right.toReversed())?.verdict]).toEqual([
      "not",
      "linearizable",
    ]);
  });
});

const early = { ...acquire([50, 51], "A", acquired(2, 30)), client: "c1" };
/** Of each property of grants: what violates it alone, and what nearly does. */
const OF_GRANTS: Readonly<Record<GrantViolation["property"], Readonly<Record<string, Example>>>> = {
  unique: {
    "two lease ids": {
      wrong: [A, acquire([104, 105], "B", acquired(1))],
      right: [A, acquire([50, 51], "A", acquired(1, 50))],
    },
    "two lease ids, one of them renewed": {
      wrong: [A, release([10, 11], "A", released), renew([20, 21], "B", renewed(1))],
      right: [A, release([10, 11], "A", released), renew([20, 21], "B", renewed(2))],
    },
  },
  order: {
    "the first answer has the larger token": {
      // The lost revoke explains that both were held, and not that their tokens went back.
      wrong: [early, revoke([40, 41], {}, "unknown"), acquire([60, 61], "B", acquired(1))],
      right: [early, revoke([40, 41], {}, "unknown"), acquire([60, 61], "B", acquired(3))],
    },
    "the first answer has the larger token, of requests that do not overlap": {
      wrong: [early, revoke([40, 41], {}, "unknown"), acquire([51.5, 61], "B", acquired(1))],
      right: [early, revoke([40, 41], {}, "unknown"), acquire([50.5, 61], "B", acquired(1))],
    },
  },
  overlap: {
    "before the expiry": {
      wrong: [A, acquire([97, 98], "B", acquired(2))],
      right: [A, acquire([98, 99], "B", acquired(2))],
    },
    "before the end of a renewal": {
      wrong: [A, renew([50, 51], "A", renewed(1)), acquire([120, 121], "B", acquired(2))],
      right: [A, renew([50, 51], "A", renewed(1)), acquire([154, 155], "B", acquired(2))],
    },
    "of a grant that did not come just before": {
      wrong: [
        acquire([0, 1], "A", acquired(1, 500)),
        revoke([10, 11], {}, "unknown"),
        acquire([20, 21], "B", acquired(2, 10)),
        acquire([40, 41], "C", acquired(3, 100)),
        acquire([60, 61], "D", acquired(4, 100)),
      ],
      right: [
        acquire([0, 1], "A", acquired(1, 500)),
        revoke([10, 11], {}, "unknown"),
        acquire([20, 21], "B", acquired(2, 10)),
        acquire([40, 41], "C", acquired(3, 10)),
        acquire([60, 61], "D", acquired(4, 100)),
      ],
    },
    "after another's release": {
      wrong: [A, release([10, 11], "B", released), acquire([20, 21], "C", acquired(2))],
      right: [A, release([10, 11], "A", released), acquire([20, 21], "C", acquired(2))],
    },
    "after a release that failed": {
      wrong: [A, release([10, 11], "A", "fail"), acquire([20, 21], "B", acquired(2))],
      right: [A, release([10, 11], "A", "unknown"), acquire([20, 21], "B", acquired(2))],
    },
    "after a release that was sent later": {
      wrong: [A, release([30, 31], "A", released), acquire([20, 21], "B", acquired(2))],
      right: [A, release([21, 31], "A", released), acquire([20, 21], "B", acquired(2))],
    },
    "after a revoke that waits for the expiry": {
      wrong: [
        A,
        revoke([10, 11], { free: "atExpiry" }, revoked(1, 90)),
        acquire([20, 21], "B", acquired(2)),
      ],
      right: [A, revoke([10, 11], {}, revoked(1)), acquire([20, 21], "B", acquired(2))],
    },
    "after a revoke of another token": {
      wrong: [
        A,
        revoke([10, 11], { expectedToken: 9 }, "unknown"),
        acquire([20, 21], "B", acquired(2)),
      ],
      right: [
        A,
        revoke([10, 11], { expectedToken: 1 }, "unknown"),
        acquire([20, 21], "B", acquired(2)),
      ],
    },
    "after a revoke that found nothing": {
      wrong: [A, revoke([10, 11], {}, { status: "notHeld" }), acquire([20, 21], "B", acquired(2))],
      right: [A, revoke([10, 11], {}, "unknown"), acquire([20, 21], "B", acquired(2))],
    },
    "on one resource": {
      wrong: [A, acquire([20, 21], "B", acquired(2))],
      right: [A, onOther(acquire([20, 21], "B", acquired(2)))],
    },
  },
};

function onOther(entry: HistoryEntry): HistoryEntry {
  return { ...entry, request: { ...entry.request, resource: "other" } } as HistoryEntry;
}

describe("the checker of grants", () => {
  const cases = Object.entries(OF_GRANTS).flatMap(([property, examples]) =>
    Object.entries(examples).map(([when, example]) => ({ property, when, ...example })),
  );
  const properties = (history: readonly HistoryEntry[]) =>
    checkGrants(history).violations.map(({ property }) => property);

  it.each(cases)("reports $property alone: $when", ({ property, wrong }) => {
    expect(properties(wrong)).toEqual([property]);
  });
  it.each(cases)("passes nearly the same: $property, $when", ({ right }) => {
    expect(properties(right)).toEqual([]);
  });
});
