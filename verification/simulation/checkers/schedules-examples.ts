/** Each property of schedules, violated alone, and what is nearly the same and legal. */
import type { Overlap, ScheduleView } from "leasehold";
import type { Course, Example } from "./grants-examples.js";
import { ScheduleChecker } from "./schedules.js";

/** A schedule that fires every ten milliseconds from 5 on. */
const course = (
  act: (checker: ScheduleChecker) => ReturnType<ScheduleChecker["unsettled"]> | void,
  overlap: Overlap = "allow",
): Course => {
  return (world) => {
    const checker = new ScheduleChecker(world);
    checker.declared("s", 10, overlap, 5);
    return act(checker) ?? undefined;
  };
};
/** Tasks of these fire times, each when it is due. */
const made = (...fireAtMs: readonly number[]) =>
  course((checker) => {
    for (const atMs of fireAtMs) checker.made("s", atMs, atMs, 1);
  });
const at = (fireAtMs: number, nowMs: number) =>
  course((checker) => checker.made("s", fireAtMs, nowMs, 1));
const beside = (unfinished: number, overlap: Overlap) =>
  course((checker) => checker.made("s", 10, 10, unfinished), overlap);
/** What is unsettled at 40, with a task at 10 and at 20. */
const rest = (lastFireAtMs: number, waiting = 0, overlap: Overlap = "allow") =>
  course((checker) => {
    for (const atMs of [10, 20]) checker.made("s", atMs, atMs, 1);
    const view = { name: "s", lastFireAt: new Date(lastFireAtMs).toISOString(), waiting };
    return checker.unsettled([view as ScheduleView], 40, 20);
  }, overlap);

export const SCHEDULES: readonly Example[] = [
  {
    property: "a fire time makes one task",
    when: "it makes two",
    wrong: made(10, 20, 20),
    right: made(10, 20, 30),
  },
  {
    property: "a task is of a schedule",
    when: "no such schedule is declared",
    wrong: course((checker) => checker.made("t", 10, 10, 1)),
    right: made(10),
  },
  {
    property: "no task before its time",
    when: "it is made too early",
    wrong: at(20, 19),
    right: at(20, 20),
  },
  {
    property: "no task before its time",
    when: "it is of no fire time",
    wrong: at(21, 30),
    right: at(20, 30),
  },
  {
    property: "no task before its time",
    when: "it is of a time before the declaration",
    wrong: course((checker) => {
      checker.declared("s", 10, "allow", 10);
      checker.made("s", 10, 30, 1);
    }),
    right: course((checker) => {
      checker.declared("s", 10, "allow", 9);
      checker.made("s", 10, 30, 1);
    }),
  },
  {
    property: "fire times are made in order",
    when: "an earlier one comes later",
    wrong: made(20, 10),
    right: made(10, 20),
  },
  {
    property: "tasks of a schedule do not overlap",
    when: "two are unfinished",
    wrong: beside(2, "queue"),
    right: beside(1, "queue"),
  },
  {
    property: "tasks of a schedule do not overlap",
    when: "it skips, and two are unfinished",
    wrong: beside(2, "skip"),
    right: beside(2, "allow"),
  },
  {
    property: "no fire time is lost",
    when: "one has neither a task nor waits",
    wrong: rest(30),
    right: rest(20),
  },
  {
    property: "no fire time is lost",
    when: "fewer wait than have no task",
    wrong: rest(40, 1, "queue"),
    right: rest(40, 2, "queue"),
  },
  {
    property: "liveness",
    when: "a schedule does not fire",
    wrong: rest(19, 0, "skip"),
    right: rest(30, 0, "skip"),
  },
];
