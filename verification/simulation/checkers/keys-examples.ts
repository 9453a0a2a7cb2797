/** Each property of concurrency keys, violated alone, and what is nearly the same and legal. */
import type { Course, Example } from "./grants-examples.js";
import { KeyChecker } from "./keys.js";

/** Two tasks of one key, of which the first was claimed under token 1 until 10. */
const course = (act: (checker: KeyChecker) => void, perKey = 1): Course => {
  return (world) => {
    const checker = new KeyChecker(world, perKey);
    for (const id of ["a", "b"]) checker.added(id, "key");
    checker.added("c", "other");
    checker.claimed("a", 1, 10, 0);
    act(checker);
    return undefined;
  };
};

export const KEYS: readonly Example[] = [
  {
    property: "live leases of a key stay within its limit",
    when: "the lease before has not expired",
    wrong: course((checker) => checker.claimed("b", 2, 20, 9)),
    right: course((checker) => {
      checker.claimed("c", 2, 20, 9);
      checker.claimed("a", 1, 10, 9);
      checker.finished("a");
      checker.claimed("b", 3, 20, 9);
    }),
  },
  {
    property: "live leases of a key stay within its limit",
    when: "the lease before was renewed",
    wrong: course((checker) => {
      checker.renewed("a", 1, 12);
      checker.claimed("b", 2, 20, 11);
    }),
    right: course((checker) => checker.claimed("b", 2, 20, 9), 2),
  },
  {
    property: "tasks of a key begin in order",
    when: "the one ahead waits for its retry",
    wrong: course((checker) => {
      checker.returned("a");
      checker.claimed("b", 2, 20, 5);
    }),
    right: course((checker) => {
      checker.returned("a");
      checker.claimed("a", 2, 20, 5);
      checker.finished("a");
      checker.claimed("b", 3, 20, 6);
    }),
  },
  {
    property: "tasks of a key begin in order",
    when: "the lease of the one ahead has expired",
    wrong: course((checker) => checker.claimed("b", 2, 20, 10)),
    right: course((checker) => checker.claimed("c", 2, 20, 10)),
  },
];
