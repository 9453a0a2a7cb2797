/** The checks of the chaos with tasks, each with a run that is wrong in one way, and with one that nearly is. */
import type { TaskDetails } from "leasehold/internal/wire";
import { describe, expect, it } from "vitest";
import { withoutExample } from "../../support/complaints.js";
import { checkLogs, checkRegisters, checkSayings, checkTask } from "./checks.js";
import type { LogLine } from "./processes.js";
import type { Saying } from "./proxy.js";
import type { Recorder, Write } from "./recorder.js";

type Attempt = TaskDetails["attempts"][number];
type Attempted = Partial<Pick<Attempt, "attempt" | "fencingToken" | "processor">> & {
  readonly result: string;
};

/** The second attempt has completed it, unless `more` says otherwise. */
function taskOf(more: object = {}, attempts: readonly Attempted[] = [EXPIRED, DONE]): TaskDetails {
  const numbered = attempts.map((one, at) => ({ attempt: at + 1, processor: "bob", ...one }));
  const task_output = { token: 2, holder: "bob" };
  const task_data = { steps: ["a", "b"] };
  const task = { id: "t", state: "done", fencingToken: 2, task_output, task_data };
  return { ...task, attempts: numbered, ...more } as unknown as TaskDetails;
}
const EXPIRED: Attempted = { result: "expired", fencingToken: 1, processor: "ann" };
const DONE: Attempted = { result: "done", fencingToken: 2 };

const say = (operation: string, token: number, outcome: string, reason: string | null = null) =>
  ({ id: "t", operation, token, outcome, reason }) as Saying;
const COMPLETED = say("complete", 2, "accepted");
const REFUSED = say("complete", 1, "refused", "taken");
const logged = (more: object = {}): LogLine => ({
  event: "task_refused",
  operation: "complete",
  id: "t",
  fencingToken: 1,
  reason: "taken",
  ...more,
});

const wrote = (token: number, step: number): Write => ({ task: "t", token, holder: "bob", step });
const recorded = (accepted: readonly Write[], breaches: readonly Write[] = []) =>
  ({ registers: new Map([["t", { accepted }]]), breaches }) as unknown as Recorder;
const WRITES = [wrote(1, 0), wrote(2, 0), wrote(2, 1)];

/** What is wrong, and the complaints; without any: a run that is right. */
type Run = readonly [what: string, found: () => string[], ...complaints: string[]];
const CHECKS: Readonly<Record<string, readonly Run[]>> = {
  checkTask: [
    ["is done by its second attempt", () => checkTask(taskOf())],
    [
      "was returned before",
      () => checkTask(taskOf({}, [{ ...EXPIRED, result: "returned" }, DONE])),
    ],
    ["is dead", () => checkTask(taskOf({ state: "dead" })), "is dead"],
    [
      "was completed by two attempts",
      () => checkTask(taskOf({}, [{ ...EXPIRED, result: "done" }, DONE])),
      "has 2 attempts that completed it",
      "was claimed after it was done",
    ],
    [
      "was claimed after it was done",
      () =>
        checkTask(
          taskOf({ task_output: { token: 3, holder: "bob" } }, [
            EXPIRED,
            DONE,
            { result: "expired", fencingToken: 3 },
          ]),
        ),
      "was claimed after it was done",
    ],
    [
      "lacks an attempt",
      () => checkTask(taskOf({}, [EXPIRED, { ...DONE, attempt: 3 }])),
      "its 2. attempt says 3",
    ],
    [
      "has one token twice",
      () => checkTask(taskOf({}, [{ ...EXPIRED, fencingToken: 2 }, DONE])),
      "its tokens do not grow",
    ],
    [
      "has a failed attempt, where no handler fails",
      () => checkTask(taskOf({}, [{ ...EXPIRED, result: "failed" }, DONE])),
      "attempt 1 ended as failed",
    ],
    [
      "has the output of an older attempt",
      () => checkTask(taskOf({ task_output: { token: 1, holder: "bob" } })),
      'its output {"token":1,"holder":"bob"} is not of {"attempt":2,"processor":"bob","result":"done","fencingToken":2}',
    ],
    [
      "has the output of another holder",
      () => checkTask(taskOf({ task_output: { token: 2, holder: "ann" } })),
      'its output {"token":2,"holder":"ann"} is not of {"attempt":2,"processor":"bob","result":"done","fencingToken":2}',
    ],
  ],
  checkSayings: [
    ["is completed once", () => checkSayings(taskOf(), [REFUSED, COMPLETED])],
    [
      "is completed, and answered again",
      () => checkSayings(taskOf(), [COMPLETED, say("complete", 2, "repeated")]),
    ],
    ["is completed, unseen", () => checkSayings(taskOf(), [say("complete", 2, "unknown")])],
    [
      "another task is completed",
      () => checkSayings(taskOf(), [COMPLETED, { ...COMPLETED, id: "u" }]),
    ],
    [
      "is completed twice",
      () => checkSayings(taskOf(), [COMPLETED, COMPLETED]),
      "was completed 2 times",
    ],
    [
      "is done, and only another completion is unknown",
      () => checkSayings(taskOf(), [say("complete", 1, "unknown")]),
      "is done, but no completion was accepted",
    ],
    [
      "an older attempt is answered as if it had completed it",
      () => checkSayings(taskOf(), [COMPLETED, say("complete", 1, "repeated")]),
      'answered: {"id":"t","operation":"complete","token":1,"outcome":"repeated","reason":null}',
    ],
    [
      "a failure is accepted, where no handler fails",
      () => checkSayings(taskOf(), [COMPLETED, say("fail", 1, "accepted")]),
      'answered: {"id":"t","operation":"fail","token":1,"outcome":"accepted","reason":null}',
    ],
    ["a failure is refused", () => checkSayings(taskOf(), [COMPLETED, say("fail", 1, "refused")])],
    [
      "an answer is invalid",
      () => checkSayings(taskOf(), [COMPLETED, say("heartbeat", 2, "invalid")]),
      'answered: {"id":"t","operation":"heartbeat","token":2,"outcome":"invalid","reason":null}',
    ],
  ],
  checkLogs: [
    ["logs its refusal", () => checkLogs([REFUSED], [logged()])],
    ["logs nothing, where nothing was refused", () => checkLogs([COMPLETED], [])],
    ["logs two", () => checkLogs([REFUSED, REFUSED], [logged(), logged()])],
    [
      "omits a heartbeat after a report of the same holder",
      () =>
        checkLogs([say("complete", 1, "accepted"), say("heartbeat", 1, "refused", "ended")], []),
    ],
    ...(
      [
        ["logs nothing", [REFUSED], []],
        ["logs one of two", [REFUSED, REFUSED], [logged()]],
        ["logs another event", [REFUSED], [logged({ event: "task_done" })]],
        ["logs another reason", [REFUSED], [logged({ reason: "expired" })]],
        ["logs another token", [REFUSED], [logged({ fencingToken: 2 })]],
        ["logs another task", [REFUSED], [logged({ id: "u" })]],
        ["logs another operation", [REFUSED], [logged({ operation: "fail" })]],
      ] as const
    ).map(
      ([what, sayings, log]): Run => [
        what,
        () => checkLogs(sayings, log),
        `not in the log: ${JSON.stringify(REFUSED)}`,
      ],
    ),
    [
      "omits a heartbeat though its holder's report was refused too",
      () => checkLogs([REFUSED, say("heartbeat", 1, "refused", "taken")], [logged()]),
      'not in the log: {"id":"t","operation":"heartbeat","token":1,"outcome":"refused","reason":"taken"}',
    ],
  ],
  checkRegisters: [
    ["has all steps", () => checkRegisters([taskOf()], recorded(WRITES))],
    [
      "has a step twice, as its answer was lost",
      () => checkRegisters([taskOf()], recorded([...WRITES, wrote(2, 1)])),
    ],
    [
      "was written last by an older attempt",
      () => checkRegisters([taskOf()], recorded([...WRITES, wrote(1, 1)])),
      "task t: written last with 1",
    ],
    [
      "lacks a step",
      () => checkRegisters([taskOf()], recorded([wrote(1, 0), wrote(1, 1), wrote(2, 0)])),
      "task t: the completed attempt wrote the steps 0",
    ],
    [
      "has its steps in another order",
      () => checkRegisters([taskOf()], recorded([wrote(2, 1), wrote(2, 0)])),
      "task t: the completed attempt wrote the steps 1,0",
    ],
    [
      "had a holder that the fence refused and that trusted its lease",
      () => checkRegisters([taskOf()], recorded(WRITES, [wrote(1, 1)])),
      'trusted, and late: {"task":"t","token":1,"holder":"bob","step":1}',
    ],
  ],
};

describe.each(Object.entries(CHECKS))("%s", (_, runs) => {
  const cases = runs.map(([what, found, ...complaints]) => ({ what, found, complaints }));
  it.each(cases)("judges a task that $what", ({ found, complaints }) => {
    expect(found().map((text) => text.replace(/^task t: (?!written|the completed)/, ""))).toEqual(
      complaints,
    );
  });
});

it("has an example of each complaint of each check", async () => {
  expect(Object.keys(CHECKS).sort()).toEqual(Object.keys(await import("./checks.js")).sort());
  const complaints = Object.values(CHECKS).flatMap((runs) => runs.flatMap(([, found]) => found()));
  expect(withoutExample(new URL("checks.ts", import.meta.url), complaints)).toEqual([]);
});
