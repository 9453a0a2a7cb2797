/** What a worker logs of tasks that it leaves to workers of a later version. */
import { expect, it } from "vitest";
import { tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import type { Logger } from "../env/index.js";
import { StoreUnavailableError } from "../lease/index.js";
import { defineTask } from "./define.js";
import type { TaskStore } from "./port.js";

const invoice = (version: number) => defineTask("invoice", { version });

function logged() {
  const warnings: { fields: object; text: string }[] = [];
  const none = () => {};
  const warn = (fields: object, text = "") => void warnings.push({ fields, text });
  const logger: Logger = { debug: none, info: none, warn, error: warn };
  return { warnings, ...tasksWorld(logger) };
}

it("names each later version once, when its tasks have been due for 10 s", async () => {
  const { tasks, clock, warnings } = logged();
  tasks.work([invoice(2).handle(() => "done")]);
  await tasks.enqueue(defineTask("mail"), 1);
  await tasks.enqueue(invoice(3), 1, { queue: "elsewhere" });
  const dueAt = new Date(clock.wall()).toISOString();
  await tasks.enqueue(invoice(1), 1);
  await tasks.enqueue(invoice(3), 1);
  await tasks.enqueue(invoice(3), 1);
  await clock.advance(5_000);
  expect(warnings).toEqual([]);
  await clock.advance(120_000);
  expect(warnings).toEqual([
    {
      fields: { queue: "default", kind: "invoice", version: 3, taken: 2, tasks: 2, dueAt },
      text: "due tasks are of a later version: this worker leaves them to others",
    },
  ]);
  await tasks.enqueue(invoice(4), 1);
  await clock.advance(60_000);
  expect(warnings.map(({ fields }) => fields)).toMatchObject([{ version: 3 }, { version: 4 }]);
  await tasks.close();
});

it("names a later version for each queue", async () => {
  const { tasks, clock, warnings } = logged();
  const queues = ["default", "elsewhere"];
  tasks.work([invoice(1).handle(() => "done")], { queues });
  for (const queue of queues) await tasks.enqueue(invoice(2), 1, { queue });
  await clock.advance(60_000);
  const named = warnings.map(({ fields }) => (fields as { queue: string }).queue);
  expect(named.sort()).toEqual(queues);
  await tasks.close();
});

it("looks only now and then, and survives a store that does not answer", async () => {
  const { client, clock, warnings } = logged();
  let looks = 0;
  const dueKinds: TaskStore["dueKinds"] = async () => {
    looks += 1;
    throw new StoreUnavailableError("connection refused", { outcome: "none" });
  };
  const tasks = client("me", { dueKinds });
  tasks.work([invoice(1).handle(() => "done")]);
  await clock.advance(89_000);
  expect([looks, warnings]).toEqual([3, []]);
  await tasks.close();
});
