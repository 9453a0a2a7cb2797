/** Each property of limits, violated alone, and what is nearly the same and legal. */
import type { Course, Example } from "./grants-examples.js";
import { LimitChecker, type Limits } from "./limits.js";

const LOOSE: Limits = {
  running: 9,
  rate: { limit: 9, perMs: 10 },
  keyRate: { limit: 9, perMs: 10 },
};
/** Of the tasks a and b of one key, and c of another, a was claimed under token 1 until 10. */
const course = (limits: Partial<Limits>, act: (checker: LimitChecker) => void): Course => {
  return (world) => {
    const checker = new LimitChecker(world, { ...LOOSE, ...limits });
    for (const id of ["a", "b"]) checker.added(id, "key");
    checker.added("c", "other");
    checker.claimed("a", 1, 10, 0);
    act(checker);
    return undefined;
  };
};
const ONE = { limit: 1, perMs: 10 };

export const LIMITS: readonly Example[] = [
  {
    property: "live leases of a kind stay within its limit",
    when: "the lease before has not expired",
    wrong: course({ running: 1 }, (checker) => checker.claimed("c", 2, 20, 9)),
    right: course({ running: 1 }, (checker) => {
      checker.claimed("a", 1, 10, 9);
      checker.claimed("c", 2, 20, 10);
      checker.ended("c");
      checker.claimed("b", 3, 20, 11);
    }),
  },
  {
    property: "live leases of a kind stay within its limit",
    when: "the lease before was renewed",
    wrong: course({ running: 1 }, (checker) => {
      checker.renewed("a", 1, 12);
      checker.claimed("c", 2, 20, 11);
    }),
    right: course({ running: 2 }, (checker) => {
      checker.renewed("a", 1, 12);
      checker.claimed("c", 2, 20, 11);
    }),
  },
  {
    property: "starts of a window stay within the rate",
    when: "the one before has ended",
    wrong: course({ rate: ONE }, (checker) => {
      checker.ended("a");
      checker.claimed("c", 2, 20, 9);
    }),
    right: course({ rate: ONE }, (checker) => checker.claimed("c", 2, 20, 10)),
  },
  {
    property: "starts of a window stay within the rate of a key",
    when: "another key has starts left",
    wrong: course({ keyRate: ONE }, (checker) => checker.claimed("b", 2, 20, 9)),
    right: course({ keyRate: ONE }, (checker) => {
      checker.claimed("c", 2, 20, 9);
      checker.claimed("b", 3, 20, 10);
    }),
  },
];
