/** Each property of `once`, violated alone, and what is nearly the same and legal. */
import type { OnceView } from "leasehold/internal";
import type { Course, Example } from "./grants-examples.js";
import { OnceChecker } from "./once.js";

const course = (act: (checker: OnceChecker) => void): Course => {
  return (world) => {
    act(new OnceChecker(world));
    return undefined;
  };
};
const success = (token: number, untilMs = Number.POSITIVE_INFINITY) => {
  return { value: `by ${token}`, by: `ann ${token}`, token, untilMs };
};
const answer = (token: number, by = `ann ${token}`) => {
  return { ran: false as const, value: `by ${token}`, at: "", by };
};
/** What is unsettled with one record, of which the store shows `views`. */
const rest = (untilMs: number, views: readonly Partial<OnceView>[], waiting = 0): Course => {
  return (world) => {
    const checker = new OnceChecker(world);
    checker.recorded("k", success(1, untilMs), 0, true);
    return checker.unsettled(["k"], views as readonly OnceView[], waiting);
  };
};
const DONE = { key: "k", state: "done" } as const;

export const ONCE: readonly Example[] = [
  {
    property: "a key succeeds once",
    when: "two tokens have recorded it",
    wrong: course((checker) => {
      for (const token of [1, 2]) checker.recorded("k", success(token), token, true);
    }),
    right: course((checker) => {
      for (const key of ["k", "l"]) checker.recorded(key, success(1), 1, true);
      checker.recorded("k", success(1), 2, true);
    }),
  },
  {
    property: "a key succeeds once",
    when: "it is recorded again before its time is over",
    wrong: course((checker) => {
      checker.recorded("k", success(1, 10), 0, true);
      checker.recorded("k", success(2), 9, true);
    }),
    right: course((checker) => {
      checker.recorded("k", success(1, 10), 0, true);
      checker.recorded("k", success(2), 10, true);
    }),
  },
  {
    property: "a record is made under a live lease",
    when: "the lease has ended",
    wrong: course((checker) => checker.recorded("k", success(1), 0, false)),
    right: course((checker) => checker.recorded("k", success(1), 0, true)),
  },
  {
    property: "no work after the success",
    when: "a later lease works on it",
    wrong: course((checker) => {
      checker.recorded("k", success(2), 0, true);
      checker.begins("k", 3, 1);
    }),
    right: course((checker) => {
      checker.begins("k", 3, 0);
      checker.recorded("k", success(2, 5), 0, true);
      checker.begins("k", 1, 1);
      checker.begins("k", 3, 5);
      checker.begins("l", 3, 1);
    }),
  },
  {
    property: "a failed key is not worked on",
    when: "no operator has retried it",
    wrong: course((checker) => {
      checker.failed("k");
      checker.recorded("k", success(1), 0, true);
    }),
    right: course((checker) => {
      checker.failed("k");
      checker.retried("k");
      checker.recorded("k", success(1), 0, true);
    }),
  },
  {
    property: "an answer has its record",
    when: "there is none with its value",
    wrong: course((checker) => checker.answered("k", answer(1))),
    right: course((checker) => {
      checker.recorded("k", success(1), 0, true);
      checker.answered("k", answer(1));
      checker.answered("k", answer(1));
    }),
  },
  {
    property: "an answer has its record",
    when: "it is by another one",
    wrong: course((checker) => {
      checker.recorded("k", success(1), 0, true);
      checker.answered("k", answer(1, "bob"));
    }),
    right: course((checker) => {
      checker.recorded("k", success(1, 5), 0, true);
      checker.recorded("k", success(2), 5, true);
      checker.answered("k", answer(1));
    }),
  },
  {
    property: "one caller is answered that it ran",
    when: "two are",
    wrong: course((checker) => {
      checker.recorded("k", success(1), 0, true);
      for (const _ of [1, 2]) checker.answered("k", { ran: true, value: "by 1" });
    }),
    right: course((checker) => {
      checker.recorded("k", success(1), 0, true);
      checker.answered("k", { ran: true, value: "by 1" });
      checker.answered("k", answer(1));
    }),
  },
  {
    property: "no lost record",
    when: "the store shows another state",
    wrong: rest(Number.POSITIVE_INFINITY, [{ key: "k", state: "failing" }]),
    right: rest(Number.POSITIVE_INFINITY, [DONE]),
  },
  {
    property: "no lost record",
    when: "it was for ever",
    wrong: rest(Number.POSITIVE_INFINITY, []),
    right: rest(10, []),
  },
  {
    property: "liveness",
    when: "a key was never done",
    wrong: (world) => new OnceChecker(world).unsettled(["k"], [], 0),
    right: rest(Number.POSITIVE_INFINITY, [DONE]),
  },
  {
    property: "liveness",
    when: "a caller was not answered",
    wrong: rest(Number.POSITIVE_INFINITY, [DONE], 1),
    right: rest(Number.POSITIVE_INFINITY, [DONE], 0),
  },
];
